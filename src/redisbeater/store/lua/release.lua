-- Release claimed entries: they come up again with the same fire time, their meta untouched.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2..] entries  hashes: the claimed entries
-- ARGV[1] claim_id   text: the claim that is released
-- ARGV[2] delay      seconds until the next try; 0: at once
-- ARGV[3] reason     text: what went wrong, kept as last_error; '' when nothing did
-- Returns a word for each entry: 'RELEASED', or 'FENCED': the claim is not ours any more
local schedule = KEYS[1]
local claim_id, delay, reason = ARGV[1], ARGV[2], ARGV[3]

local retry_at = string.format('%.6f', tonumber(server_time()) + tonumber(delay))

local function release(key)
  local stored = read(key, 'claim', 'fire_time', 'look_at')
  if stored.claim ~= claim_id then return 'FENCED' end
  if reason ~= '' then redis.call('HSET', key, 'last_error', reason) end
  if is_later_look(redis.call('ZSCORE', schedule, key), stored) then
    redis.call('HDEL', key, 'claim')
    redis.call('HSET', key, 'look_at', retry_at)
    redis.call('ZADD', schedule, retry_at, key)
  else
    clear_claim(key)
  end
  return 'RELEASED'
end

local outcomes = {}
for i = 2, #KEYS do outcomes[#outcomes + 1] = release(KEYS[i]) end
return outcomes
