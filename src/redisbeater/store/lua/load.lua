-- Read entries and the clock at one instant.
--
-- The score of an entry that is claimed, or waits for another try or for its jitter, only says when beat looks again; the
-- score returned is the fire time then. A key of another type is no entry. The reply is one text, because a client unpacks
-- a thousand small ones slowly.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] broken     hash: entry name -> why it is quarantined
-- KEYS[3..] entries  hashes: the entries
-- ARGV[1] prefix     text: what every entry key begins with
-- Returns JSON: {now, entries: for each entry false: there is none, or {definition, meta, recorded_run, score, origin,
--      last_error, skipped, claim, is_broken: whether it is listed as such}}; what is not stored is left out
local schedule, broken = KEYS[1], KEYS[2]
local prefix = ARGV[1]

local function load(key)
  if redis.call('TYPE', key).ok ~= 'hash' then return false end
  local entry = read(key, 'definition', 'meta', 'recorded_run', 'origin', 'last_error', 'skipped', 'claim', 'fire_time', 'look_at')
  local score = redis.call('ZSCORE', schedule, key)
  entry.score = is_later_look(score, entry) and entry.fire_time or score or nil
  entry.fire_time, entry.look_at = nil, nil
  entry.is_broken = redis.call('HEXISTS', broken, string.sub(key, #prefix + 1)) == 1
  return entry
end

local entries = {}
for i = 3, #KEYS do entries[#entries + 1] = load(KEYS[i]) end
return cjson.encode({now = server_time(), entries = entries})
