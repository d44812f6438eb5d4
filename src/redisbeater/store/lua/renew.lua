-- Renew the lock for another timeout, and write the line of the beat that holds it.
--
-- KEYS[1] lock      string: token of the leader, with TTL
-- KEYS[2] beats     hash: token -> JSON of each beat
-- ARGV[1] token     text: ours
-- ARGV[2] timeout   milliseconds until it is free again unless it is renewed
-- ARGV[3] beat      text: the line of this beat; '': none is due
-- Returns {'RENEWED', '', '0'}, {'GONE', '', '0'}: nobody holds it, {'HELD', token of the leader, milliseconds until it
--      is free (text; '-1': it never is)}: somebody else does, or {'FOREIGN', its type, '-1'}: the key holds another
--      type
local lock, beats = KEYS[1], KEYS[2]
local token, timeout, beat = ARGV[1], ARGV[2], ARGV[3]

local holder = try('GET', lock)
if holder == nil then return {'FOREIGN', redis.call('TYPE', lock).ok, '-1'} end
if not holder then return {'GONE', '', '0'} end
if holder ~= token then return {'HELD', string.sub(holder, 1, 200), tostring(redis.call('PTTL', lock))} end
redis.call('PEXPIRE', lock, timeout)
write_beat(beats, beat)
return {'RENEWED', '', '0'}
