-- Confirm claimed entries: what became of them is recorded, their next score set, the claim removed.
--
-- An entry whose claim is no longer this one stays as it is: its lease ran out and somebody else took it, or it was
-- deleted. One whose score was set meanwhile, by an edit, keeps that score. Where another writer changed definition or
-- meta meanwhile nothing is written, so that the caller can take that change into its own.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] broken     hash: entry name -> why it was set aside
-- KEYS[3] statics    set: names of the static entries
-- KEYS[4] receipt    string: what a recall would need; not needed any more
-- KEYS[5..] entries  hashes: the claimed entries
-- ARGV[1] claim_id   text: the claim that is confirmed
-- ARGV[2] outcomes   JSON, for each entry [its name, SHA-1 of what was read: definition, newline, meta; the new meta, the
--                    new definition, its next score (text; '': the entry has finished and is deleted), the fire time
--                    that stands beside the score, if any, with its '*'; the skipped ones; each of these '' keeps what is stored]
-- Returns JSON of the entries of which nothing was written, by their place, the first being 0: {'0': {}}, the claim is not
--      ours any more; {'0': [definition, meta]}, they are others by now
local schedule, broken, statics, receipt = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local claim_id, outcomes = ARGV[1], ARGV[2]

local any_broken = redis.call('TYPE', broken).ok ~= 'none'

local function words_of(text) return string.match(text or '', '^([^ *]+)(%*?) ([^ ]+) ?(.*)$') end

local function set(key, fields)
  local given = {}
  for i = 1, #fields, 2 do
    if fields[i + 1] ~= '' then given[#given + 1], given[#given + 2] = fields[i], fields[i + 1] end
  end
  if given[1] then redis.call('HSET', key, unpack(given)) end
end

local function commit(key, name, seen, meta, definition, score, fire_time, skipped)
  local stored = redis.pcall('HMGET', key, 'fire_time', 'definition', 'meta')
  local _, _, look_at, claim = words_of(stored[1])
  if claim ~= claim_id then return {} end
  local texts = {stored[2] or '', stored[3] or ''}
  if redis.sha1hex(texts[1] .. '\n' .. texts[2]) ~= seen then return texts end
  local current = redis.call('ZSCORE', schedule, key)
  local is_ours = current and tonumber(current) == tonumber(look_at)
  if any_broken then redis.call('HDEL', broken, name) end
  if is_ours and score == '' then
    redis.call('DEL', key)
    redis.call('ZREM', schedule, key)
    redis.call('SREM', statics, name)
    return nil
  end
  redis.call('HDEL', key, 'fire_time', 'last_error')
  set(key, {'meta', meta, 'skipped', skipped})
  if is_ours then
    redis.call('ZADD', schedule, score, key)
    set(key, {'definition', definition, 'fire_time', fire_time ~= '' and fire_time .. ' ' .. score or ''})
  end
end

redis.call('DEL', receipt)
local refused, terms = {}, cjson.decode(outcomes)
for i = 5, #KEYS do refused[tostring(i - 5)] = commit(KEYS[i], unpack(terms[i - 4])) end
return cjson.encode(refused)
