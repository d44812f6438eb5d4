-- Give claimed entries back unsent: they come up again with the same fire time, their meta untouched.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2..] entries  hashes: the claimed entries
-- ARGV[1] claim_id   text: the claim that is given back
-- ARGV[2] delay      seconds until the next try; 0: at once
-- ARGV[3] reason     text: what went wrong, kept as last_error; '' when nothing did
-- Returns a word for each entry: 'RELEASED', or 'FENCED': the claim is not ours any more
local schedule = KEYS[1]
local claim_id, delay, reason = ARGV[1], ARGV[2], ARGV[3]

local time = redis.call('TIME')
local retry_at = string.format('%.6f', tonumber(string.format('%d.%06d', time[1], time[2])) + tonumber(delay))

local function release(key)
  local claim = redis.pcall('HMGET', key, 'claim_id', 'look_at')
  if claim.err or claim[1] ~= claim_id then return 'FENCED' end
  redis.call('HDEL', key, 'claim_id')
  if reason ~= '' then redis.call('HSET', key, 'last_error', reason) end
  local current = redis.call('ZSCORE', schedule, key)
  if current and claim[2] and tonumber(current) == tonumber(claim[2]) then
    redis.call('HSET', key, 'look_at', retry_at)
    redis.call('ZADD', schedule, retry_at, key)
  end
  return 'RELEASED'
end

local outcomes = {}
for i = 2, #KEYS do outcomes[#outcomes + 1] = release(KEYS[i]) end
return outcomes
