-- Read entries and the clock at one instant.
--
-- The score of an entry that is claimed, or waits for another try or for its jitter, only says when beat looks again;
-- the score returned is the fire time then. A key of another type is no entry, nor is one that is not of this schedule.
-- The reply is one text, because a client unpacks a thousand small ones slowly. An entry of more bytes than a limit is
-- not read. When what was read is enough for one reply, the others are left out.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] broken     hash: entry name, or ':static:' and the name of a declaration -> why it is broken
-- KEYS[3] zone       string: the zone of entries that have none of their own
-- KEYS[4..] entries  hashes: the entries
-- ARGV[1] prefix     text: what every entry key begins with
-- ARGV[2] most       bytes of the texts of one entry
-- ARGV[3] enough     bytes of the texts of all entries: then no other entry is read
-- Returns JSON: {now, zone: '' where there is none, entries: for each entry, until there is enough, false: there is
--      none, or {definition, meta, recorded_run, skipped, or oversized: the bytes of these four; score, origin,
--      last_error, claim, failures: how many of its runs have failed in a row; report, declaration: why it is broken,
--      and why a declaration of its name could not be stored; of a failing one is_failing, tries, failing_since, and
--      retry_at unless it is claimed}}; what is not stored is left out
local schedule, broken, zone = KEYS[1], KEYS[2], KEYS[3]
local prefix, most, enough = ARGV[1], ARGV[2], ARGV[3]
local entries, bytes = {}, 0

-- A longer report is not by beat.
local function report_on(field)
  local text = try('HGET', broken, field)
  return text and string.sub(text, 1, 4096) or nil
end

local function load(key)
  if redis.call('TYPE', key).ok ~= 'hash' then return false end
  local score = redis.call('ZSCORE', schedule, key)
  if not score and not is_own(schedule, key, most) then
    bytes = bytes + redis.call('HSTRLEN', key, 'definition')
    return false
  end
  local entry = read_bounded(
    key, most, 0,
    'claim', 'fire_time', 'look_at', 'last_error', 'tries', 'failing_since', 'origin', 'failures'
  )
  local is_later = is_later_look(score, entry)
  entry.score = is_later and entry.fire_time or score or nil
  entry.is_failing = is_later and entry.last_error ~= nil
  entry.retry_at = entry.is_failing and not entry.claim and entry.look_at or nil
  entry.report = report_on(string.sub(key, #prefix + 1))
  entry.declaration = report_on(':static:' .. string.sub(key, #prefix + 1))
  bytes = bytes + entry.size
  entry.fire_time, entry.look_at, entry.key, entry.size = nil, nil, nil, nil
  return entry
end

for i = 4, #KEYS do
  if bytes < tonumber(enough) then entries[#entries + 1] = load(KEYS[i]) end
end
return cjson.encode({now = server_time(), zone = text_at(zone) or '', entries = entries})
