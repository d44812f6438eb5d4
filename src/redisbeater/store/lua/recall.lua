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

local function words_of(text) return string.match(text or '', '^([^ *]+)(%*?) ([^ ]+) ?(.*)$') end

local lease_end = redis.call('GET', receipt)
if not lease_end then return 0 end
local recalled = 0
for _, key in ipairs(redis.call('ZRANGEBYSCORE', schedule, lease_end, lease_end)) do
  local stored = redis.call('TYPE', key).ok == 'hash' and redis.call('HGET', key, 'fire_time')
  local fire_time, star, look_at, claim = words_of(stored)
  if claim == claim_id and tonumber(look_at) == tonumber(lease_end) then
    redis.call('ZADD', schedule, fire_time, key)
    redis.call('HDEL', key, 'fire_time')
    if star ~= '' then redis.call('HSET', key, 'fire_time', fire_time .. '* ' .. fire_time) end
    recalled = recalled + 1
  end
end
redis.call('DEL', receipt)
return recalled
