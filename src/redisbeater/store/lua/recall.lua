-- Give back what a claim took whose reply was lost: nobody knows of it, and it would wait for the end of the lease.
--
-- The entries come up again with the fire times that they had; one that was edited meanwhile is left as it is.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] receipt    string: the end of the claim's lease; gone when it took nothing, or long ago
-- ARGV[1] claim_id   text: the claim
-- Returns how many entries were given back
local schedule, receipt = KEYS[1], KEYS[2]
local claim_id = ARGV[1]

local lease_end = redis.call('GET', receipt)
if not lease_end then return 0 end
local recalled = 0
for _, key in ipairs(redis.call('ZRANGEBYSCORE', schedule, lease_end, lease_end)) do
  local claim = redis.pcall('HMGET', key, 'claim_id', 'fire_time')
  if claim[1] == claim_id then
    redis.call('ZADD', schedule, claim[2], key)
    redis.call('HDEL', key, 'claim_id', 'fire_time', 'look_at')
    recalled = recalled + 1
  end
end
redis.call('DEL', receipt)
return recalled
