-- Take the lock when it is free, already ours or abandoned, and record the version that beat writes. A beat that is
-- older than the data does not take the lock. One that does not get it stands by, and writes its line.
--
-- KEYS[1] lock      string: token of the leader, with TTL
-- KEYS[2] format    string: version of what beat writes
-- KEYS[3] beats     hash: token -> JSON of each beat
-- ARGV[1] token     text: ours
-- ARGV[2] timeout   milliseconds until it is free again unless it is renewed
-- ARGV[3] version   number: what this beat writes
-- ARGV[4] abandoned text: token of a leader that has stopped renewing the lock; '': none is known
-- ARGV[5] seen_end  UNIX seconds when the lock of that leader ends; a lock that ends later was renewed
-- ARGV[6] beat      text: the line of this beat as a standby; '': none is due
-- Returns {'ACQUIRED', '', '0', '', taken_from}: the abandoned leader from which it was taken, '' if it was free,
--      {'HELD', token of the leader, milliseconds until it is free (text; '-1': it never is), newer, UNIX seconds when
--      it is}, {'FOREIGN', type of the lock's key, '-1', newer, ''}: it holds no token, as an empty text is none, or
--      {'OUTDATED', '', '-1', newer, ''}: the lock is free, but the data is newer than this beat. newer: what the key
--      of the format holds, '' when it is not newer
local lock, format, beats = KEYS[1], KEYS[2], KEYS[3]
local token, timeout, version, abandoned, seen_end, beat = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local holder = try('GET', lock)
local newer, is_older = newer_format(format, version)
local taken_from = ''
if newer or holder ~= false then write_beat(beats, beat) end
if holder == nil or holder == '' then return {'FOREIGN', redis.call('TYPE', lock).ok, '-1', newer or '', ''} end
if holder and holder ~= token then
  local leader, free_in = string.sub(holder, 1, 200), redis.call('PTTL', lock)
  local ends_at = server_time() + free_in / 1000
  if leader ~= abandoned or free_in < 0 or math.abs(ends_at - tonumber(seen_end)) > 0.1 then
    return {'HELD', leader, tostring(free_in), newer or '', string.format('%.3f', ends_at)}
  end
  taken_from = leader
end
if newer then return {'OUTDATED', '', '-1', newer, ''} end
if is_older then redis.call('SET', format, version) end
redis.call('SET', lock, token, 'PX', timeout)
return {'ACQUIRED', '', '0', '', taken_from}
