-- Confirm claimed entries: what became of them is recorded, their next score set, the claim removed.
--
-- An entry whose claim is no longer this one stays as it is: its lease ran out and somebody else took it, or it was
-- deleted. One whose score was set meanwhile, by an edit, keeps that score.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] broken     hash: entry name -> why it was set aside
-- KEYS[3..] entries  hashes: the claimed entries
-- ARGV[1] claim_id   text: the claim that is confirmed
-- ARGV[2..] triples  for each entry: its name, its new meta ('' keeps the stored one), its next score (text)
-- Returns a word for each entry: 'COMMITTED', or 'FENCED': the claim is not ours any more
local schedule, broken = KEYS[1], KEYS[2]
local claim_id = ARGV[1]

local function commit(key, name, meta, score)
  local claim = redis.call('HMGET', key, 'claim_id', 'claim_until')
  if claim[1] ~= claim_id then return 'FENCED' end
  if meta ~= '' then redis.call('HSET', key, 'meta', meta) end
  local current = redis.call('ZSCORE', schedule, key)
  if current and claim[2] and tonumber(current) == tonumber(claim[2]) then redis.call('ZADD', schedule, score, key) end
  redis.call('HDEL', key, 'claim_id', 'claim_fire_time', 'claim_until', 'last_error')
  redis.call('HDEL', broken, name)
  return 'COMMITTED'
end

local outcomes = {}
for i = 3, #KEYS do
  local first = 2 + (i - 3) * 3
  outcomes[#outcomes + 1] = commit(KEYS[i], ARGV[first], ARGV[first + 1], ARGV[first + 2])
end
return outcomes
