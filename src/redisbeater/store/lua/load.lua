-- Read entries and the clock at one instant: those whose keys are passed, or a page of the schedule, of which the
-- failing entries come first, then the next to run, dormant ones last; the failing ones come there once more.
--
-- The keys of a page are read from the lists of entries, and the key of calendars is built from the prefix: they share
-- the slot by construction.
--
-- The score of an entry that is claimed, or waits for another try or for its jitter, only says when beat looks again;
-- the score returned is the fire time then. A key of another type is no entry, nor is one that is not of this schedule.
-- The reply is one text, because a client unpacks a thousand small ones slowly. An entry of more bytes than a limit is
-- not read. When what was read is enough for one reply, the others are left out.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] broken     hash: entry name, or ':static:' and the name of a declaration -> why it is broken
-- KEYS[3] zone       string: the zone of entries that have none of their own
-- KEYS[4] failing    sorted set: entry key -> the fire time that it owes
-- KEYS[5..] entries  hashes: the entries
-- ARGV[1] prefix     text: what every entry key begins with
-- ARGV[2] most       bytes of the texts of one entry
-- ARGV[3] enough     bytes of the texts of all entries: then no other entry is read
-- ARGV[4] start      number of members before the page
-- ARGV[5] size       number of members of the page; 0: the entries that are passed are read
-- ARGV[6] number     of entries of the page that are read, the first ones
-- Returns JSON: {now, zone: '' where there is none, calendars: the number of the newest change of one, entries:
--      for each entry, until there is enough, false: there is none, or {definition, meta, recorded_run, skipped, or
--      oversized: the bytes of these four; score, origin, last_error, claim, failures: how many of its runs have failed
--      in a row, ends: letters of its last ends and when the last one was; report, declaration: why it is broken, and
--      why a declaration of its name could not be stored; of a failing one is_failing, tries, failing_since, and
--      retry_at unless it is claimed; rules, calendars: by which it was planned}}; what is not stored is left out. Of a
--      page also {names: of all its members, end: how many members come before the next page, unless it is the last
--      one, total: how many the schedule has, reports: how many there are on broken entries and declarations}
local schedule, broken, zone, failing = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local prefix, most, enough, start, size, number = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
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
    'claim', 'fire_time', 'look_at', 'last_error', 'tries', 'failing_since', 'origin', 'failures', 'ends', 'rules',
    'calendars'
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

-- Return the members of a page, each a key or the bare name of an entry, and how many there are on all pages.
local function members()
  local found, before, all = {}, tonumber(start), 0
  for _, part in ipairs({{failing, '-inf', '+inf'}, {schedule, 0, '+inf'}, {schedule, '-inf', '(0'}}) do
    local key, lowest, highest = unpack(part)
    local count, left = try('ZCOUNT', key, lowest, highest) or 0, size - #found
    if left > 0 and before < count then
      for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, lowest, highest, 'LIMIT', before, left)) do
        found[#found + 1] = member
      end
    end
    before, all = math.max(before - count, 0), all + count
  end
  return found, all
end

local reply = {now = server_time(), zone = text_at(zone) or '', entries = entries}
reply.calendars = newest_of_calendars(prefix)
local keys = {}
for i = 5, #KEYS do
  keys[#keys + 1] = KEYS[i]
end
if tonumber(size) > 0 then
  local found, all = members()
  reply.names, reply.total, reply.reports = {}, redis.call('ZCARD', schedule), try('HLEN', broken) or 0
  reply['end'] = start + #found < all and start + #found or nil
  for _, member in ipairs(found) do
    local is_key = string.sub(member, 1, #prefix) == prefix
    reply.names[#reply.names + 1] = is_key and string.sub(member, #prefix + 1) or member
  end
  for i = 1, math.min(#reply.names, number) do
    keys[i] = prefix .. reply.names[i]
  end
end
for i, key in ipairs(keys) do
  if bytes < tonumber(enough) then entries[i] = load(key) end
end
return cjson.encode(reply)
