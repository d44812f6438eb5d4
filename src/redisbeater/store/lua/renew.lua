-- Renew the lock for another timeout.
--
-- KEYS[1] lock      string: token of the leader, with TTL
-- ARGV[1] token     text: ours
-- ARGV[2] timeout   milliseconds until it is free again unless it is renewed
-- Returns {'RENEWED', '', '0'}, {'GONE', '', '0'}: nobody holds it, or
--      {'HELD', token of the leader, milliseconds until it is free (text)}: somebody else does
local lock = KEYS[1]
local token, timeout = ARGV[1], ARGV[2]

local holder = redis.call('GET', lock)
if not holder then return {'GONE', '', '0'} end
if holder ~= token then return {'HELD', holder, tostring(redis.call('PTTL', lock))} end
redis.call('PEXPIRE', lock, timeout)
return {'RENEWED', '', '0'}
