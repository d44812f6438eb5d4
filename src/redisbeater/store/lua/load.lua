-- Read entries and the clock at one instant.
--
-- The fire time of an entry that is claimed, or waits for another try or for its jitter, stands beside its score, which
-- then only says when beat looks again; the score returned is the fire time. A key of another type is no entry. The
-- reply is one text, because a client unpacks a thousand small ones slowly.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] broken     hash: entry name -> why it was set aside
-- KEYS[3..] entries  hashes: the entries
-- ARGV[1] prefix     text: what every entry key begins with
-- Returns JSON: [now, ...] and for each entry false: there is none, or [definition, meta, score, origin, last error,
--      skipped, claim id, 1: it is listed as broken, 0: it is not]; each text '' when it is missing
local schedule, broken = KEYS[1], KEYS[2]
local prefix = ARGV[1]

local function words_of(text) return string.match(text or '', '^([^ *]+)(%*?) ([^ ]+) ?(.*)$') end

local function load(entry)
  if redis.call('TYPE', entry).ok ~= 'hash' then return false end
  local score = redis.call('ZSCORE', schedule, entry)
  local fields = redis.call('HMGET', entry, 'definition', 'meta', 'origin', 'last_error', 'skipped', 'fire_time')
  local fire_time, _, look_at, claim_id = words_of(fields[6])
  if score and tonumber(look_at) == tonumber(score) then score = fire_time end
  local listed = redis.call('HEXISTS', broken, string.sub(entry, #prefix + 1))
  return {fields[1] or '', fields[2] or '', score or '', fields[3] or '', fields[4] or '', fields[5] or '', claim_id or '', listed}
end

local time = redis.call('TIME')
local reply = {string.format('%d.%06d', time[1], time[2])}
for i = 3, #KEYS do reply[#reply + 1] = load(KEYS[i]) end
return cjson.encode(reply)
