-- Confirm claimed entries: what became of them is recorded, their next score set, the claim removed.
--
-- An entry whose claim is no longer this one stays as it is: its lease ran out and somebody else took it, or it was
-- deleted. One whose score was set meanwhile, by an edit, keeps that score. Where another writer changed the meta
-- meanwhile nothing is written, so that the caller can take that change into its own.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] broken     hash: entry name -> why it was set aside
-- KEYS[3..] entries  hashes: the claimed entries
-- ARGV[1] claim_id   text: the claim that is confirmed
-- ARGV[2..] fours    for each entry: its name, SHA-1 of the meta that was read, the new meta ('' keeps the stored
--                    one), its next score (text)
-- Returns for each entry {'COMMITTED'}, {'FENCED'}: the claim is not ours any more, or {'CHANGED', meta}: the meta is
--      another one by now
local schedule, broken = KEYS[1], KEYS[2]
local claim_id = ARGV[1]

local function commit(key, name, seen, meta, score)
  local claim = redis.pcall('HMGET', key, 'claim_id', 'claim_until', 'meta')
  if claim.err or claim[1] ~= claim_id then return {'FENCED'} end
  if meta ~= '' then
    if redis.sha1hex(claim[3] or '') ~= seen then return {'CHANGED', claim[3] or ''} end
    redis.call('HSET', key, 'meta', meta)
  end
  local current = redis.call('ZSCORE', schedule, key)
  if current and claim[2] and tonumber(current) == tonumber(claim[2]) then redis.call('ZADD', schedule, score, key) end
  redis.call('HDEL', key, 'claim_id', 'claim_fire_time', 'claim_until', 'last_error')
  redis.call('HDEL', broken, name)
  return {'COMMITTED'}
end

local outcomes = {}
for i = 3, #KEYS do
  local first = 2 + (i - 3) * 4
  outcomes[#outcomes + 1] = commit(KEYS[i], ARGV[first], ARGV[first + 1], ARGV[first + 2], ARGV[first + 3])
end
return outcomes
