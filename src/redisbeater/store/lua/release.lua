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

local function words_of(text) return string.match(text or '', '^([^ *]+)(%*?) ([^ ]+) ?(.*)$') end

local time = redis.call('TIME')
local retry_at = string.format('%.6f', tonumber(string.format('%d.%06d', time[1], time[2])) + tonumber(delay))

local function release(key)
  local fire_time, star, look_at, claim = words_of(redis.pcall('HMGET', key, 'fire_time')[1])
  if claim ~= claim_id then return 'FENCED' end
  if reason ~= '' then redis.call('HSET', key, 'last_error', reason) end
  local current = redis.call('ZSCORE', schedule, key)
  if current and tonumber(current) == tonumber(look_at) then
    redis.call('HSET', key, 'fire_time', fire_time .. star .. ' ' .. retry_at)
    redis.call('ZADD', schedule, retry_at, key)
  else
    redis.call('HDEL', key, 'fire_time')
  end
  return 'RELEASED'
end

local outcomes = {}
for i = 2, #KEYS do outcomes[#outcomes + 1] = release(KEYS[i]) end
return outcomes
