-- Renew the lock for another timeout.
--
-- KEYS[1] lock      string: token of the leader, with TTL
-- ARGV[1] token     text: ours
-- ARGV[2] timeout   milliseconds until it is free again unless it is renewed
-- Returns {'RENEWED', '', '0'}, {'GONE', '', '0'}: nobody holds it, {'HELD', token of the leader, milliseconds until it is
--      free (text; '-1': it never is)}: somebody else does, or {'FOREIGN', its type, '-1'}: the key holds another type
local lock = KEYS[1]
local token, timeout = ARGV[1], ARGV[2]

local holder = try('GET', lock)
if holder == nil then return {'FOREIGN', redis.call('TYPE', lock).ok, '-1'} end
if not holder then return {'GONE', '', '0'} end
if holder ~= token then return {'HELD', string.sub(holder, 1, 200), tostring(redis.call('PTTL', lock))} end
redis.call('PEXPIRE', lock, timeout)
return {'RENEWED', '', '0'}
