-- Release the lock and wake the standbys.
--
-- KEYS[1] lock      string: token of the leader, with TTL
-- ARGV[1] token     text: ours
-- ARGV[2] channel   text: where beats listen for changes
-- ARGV[3] message   text: that the lock is free
-- Returns 'RELEASED', or 'NOT_OWNED': it was not ours
local lock = KEYS[1]
local token, channel, message = ARGV[1], ARGV[2], ARGV[3]

if text_at(lock) ~= token then return 'NOT_OWNED' end
redis.call('DEL', lock)
redis.call('PUBLISH', channel, message)
return 'RELEASED'
