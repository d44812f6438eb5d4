-- Take the lock when it is free or already ours, and record the version that beat writes. A beat that is older than the
-- data does not take the lock.
--
-- KEYS[1] lock      string: token of the leader, with TTL
-- KEYS[2] format    string: version of what beat writes
-- ARGV[1] token     text: ours
-- ARGV[2] timeout   milliseconds until it is free again unless it is renewed
-- ARGV[3] version   number: what this beat writes
-- Returns {'ACQUIRED', '', '0', ''}, {'HELD', token of the leader, milliseconds until it is free (text; '-1': it never is),
--      newer}, {'FOREIGN', type of the lock's key, '-1', newer}: it holds no token, or {'OUTDATED', '', '-1', newer}: the
--      lock is free, but the data is newer than this beat. newer: what the key of the format holds, '' when it is not newer
local lock, format = KEYS[1], KEYS[2]
local token, timeout, version = ARGV[1], ARGV[2], ARGV[3]

local holder = try('GET', lock)
local newer, is_older = newer_format(format, version)
if holder == nil then return {'FOREIGN', redis.call('TYPE', lock).ok, '-1', newer or ''} end
if holder and holder ~= token then
  return {'HELD', string.sub(holder, 1, 200), tostring(redis.call('PTTL', lock)), newer or ''}
end
if newer then return {'OUTDATED', '', '-1', newer} end
if is_older then redis.call('SET', format, version) end
redis.call('SET', lock, token, 'PX', timeout)
return {'ACQUIRED', '', '0', ''}
