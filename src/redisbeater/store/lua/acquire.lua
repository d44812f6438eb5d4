-- Take the lock when it is free or already ours.
--
-- KEYS[1] lock      string: token of the leader, with TTL
-- ARGV[1] token     text: ours
-- ARGV[2] timeout   milliseconds until it is free again unless it is renewed
-- Returns {'ACQUIRED', '', '0'} or {'HELD', token of the leader, milliseconds until it is free (text)}
local lock = KEYS[1]
local token, timeout = ARGV[1], ARGV[2]

local holder = redis.call('GET', lock)
if holder and holder ~= token then return {'HELD', holder, tostring(redis.call('PTTL', lock))} end
redis.call('SET', lock, token, 'PX', timeout)
return {'ACQUIRED', '', '0'}
