-- Release claimed entries: they become due again with the same fire time, and their meta stays.
--
-- With a reason they are failing: the fire time that each one owes is listed, until it is committed, edited or deleted.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] failing    sorted set: entry key -> the fire time that it owes, UNIX seconds
-- KEYS[3..] entries  hashes: the claimed entries
-- ARGV[1] claim_id   text: the claim that is released
-- ARGV[2] delay      seconds until the next try; 0: at once
-- ARGV[3] reason     text: what went wrong, kept as last_error; '' when nothing did
-- Returns a word for each entry: 'RELEASED', or 'FENCED': the claim is not ours any more
local schedule, failing = KEYS[1], KEYS[2]
local claim_id, delay, reason = ARGV[1], ARGV[2], ARGV[3]

local now = server_time()
local retry_at = string.format('%.6f', tonumber(now) + tonumber(delay))

local function record_failure(key, stored)
  local tries = math.min(math.max(0, tonumber(stored.tries) or 0), 1e9) + 1
  local since = instant(stored.failing_since) and stored.failing_since or now
  redis.call('HSET', key, 'last_error', reason, 'tries', string.format('%d', tries), 'failing_since', since)
  try('ZADD', failing, stored.fire_time, key)
end

local function release(key)
  local stored = read(key, 'claim', 'fire_time', 'look_at', 'tries', 'failing_since')
  if stored.claim ~= claim_id then return 'FENCED' end
  if is_later_look(redis.call('ZSCORE', schedule, key), stored) then
    redis.call('ZADD', schedule, stored.look_at, key) -- changes nothing, but is refused before anything is written
    if reason ~= '' then record_failure(key, stored) end
    redis.call('HDEL', key, 'claim')
    redis.call('HSET', key, 'look_at', retry_at)
    redis.call('ZADD', schedule, retry_at, key)
  else
    clear_claim(key)
  end
  return 'RELEASED'
end

local outcomes = {}
for i = 3, #KEYS do outcomes[#outcomes + 1] = release(KEYS[i]) end
return outcomes
