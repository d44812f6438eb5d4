-- Count what a monitor asks about the schedule, at one instant.
--
-- The hashes of runs are those that the lists name: they share the slot by construction, as do entries with the prefix.
--
-- KEYS[1] schedule  sorted set: entry key -> UNIX seconds
-- KEYS[2] failing   sorted set: entry key -> the fire time that it owes
-- KEYS[3] broken    hash: entry name -> why it is quarantined
-- KEYS[4] pause     string: why the schedule is paused; only while it is
-- KEYS[5] beats     hash: token -> JSON of each beat
-- KEYS[6] active    sorted set: run key -> lease end
-- KEYS[7] resend    sorted set: run key -> when a beat is to send it
-- KEYS[8] totals    hash: what became of runs -> how often
-- KEYS[9] lock      string: token of the beat that holds it
-- KEYS[10] zone     string: the zone of entries that have none of their own
-- KEYS[11] id       string: identity of the schedule
-- KEYS[12] failed   sorted set: entry key -> since when its runs fail
-- KEYS[13] unstable sorted set: entry key -> since when some of its runs fail
-- KEYS[14] waiting  sorted set: key of a run that no worker has started -> since when it waits
-- KEYS[15] current  hash: kind, blank, entry -> id of the incident that is open, or ended a short time ago
-- KEYS[16] delays  sorted set: task id -> UNIX seconds when beat is to send its message
-- KEYS[17] unsent  hash: task id -> why its message cannot be sent
-- KEYS[18] sender  string with a TTL: where the beat sends delays that leads
-- KEYS[19] opened   sorted set: kind, blank, entry -> when it was opened, negative once somebody has acknowledged it
-- KEYS[20] passed   string: when a beat claimed last that looks for incidents
-- KEYS[21] notices  sorted set: receiver, id of an incident and what has become of it -> when to tell that
-- KEYS[22] told     hash: receiver -> JSON of when it was told, and why it cannot be
-- ARGV[1] most      number of failing entries that are looked at
-- ARGV[2] soon      seconds that a run may wait for a worker
-- ARGV[3] few       number of runs, of reports and of incidents that are looked at
-- ARGV[4] incident  text: the key of an incident, without its id
-- ARGV[5] shown     number of incidents of a kind that are returned, the newest ones
-- ARGV[6..] bad     fields of an entry that count its bad ends
-- Returns JSON of {scheduled: members with a time, dormant: those without one, failing, broken: how many there are,
--      overdue: how many entries wait for a time that has passed, oldest, oldest_key: the earliest of these times and
--      the entry that waits for it, '' without one, now: the server's time, active, resend: how many runs there are,
--      failed, unstable: how many entries, unstarted: how many runs wait for longer than that, unstarted_entries,
--      running_entries: how many entries have such a run, or one that is executed, unstored: how many declarations have
--      no entry, incidents: of each its id, names and values of fields, news: kind -> how many incidents are open that
--      nobody has acknowledged, passed: '' where no beat does so, notices: how many are to be told now,
--      told: receivers and their JSON, beats: the lines, totals: names and counts, as
--      HSCAN returns them, up to about 1,000; delays: {waiting, late: by a second or more, failing: how many there are,
--      next: when the first is due}, unless there are none and no beat sends any; lock, zone, id:
--      the texts, '' without one, pause: the text, unless there is none, pause_left, lock_left: milliseconds, as PTTL
--      returns them}; a key of another type counts as empty
local schedule, failing, broken, pause, beats = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local active, resend, totals = KEYS[6], KEYS[7], KEYS[8]
local lock, zone, id = KEYS[9], KEYS[10], KEYS[11]
local failed, unstable, waiting, current = KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local delays, unsent, sender = KEYS[16], KEYS[17], KEYS[18]
local opened, passed, notices, told = KEYS[19], KEYS[20], KEYS[21], KEYS[22]
local most, soon, few, incident, shown = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- Return how many entries have a run in a state, of those whose keys are passed.
local function entries_of(runs, state)
  local known, count = {}, 0
  for _, key in ipairs(runs or {}) do
    local run = try('HMGET', key, 'state', 'name') or {}
    if run[1] == state and run[2] and not known[run[2]] then
      known[run[2]], count = true, count + 1
    end
  end
  return count
end

-- Return how many reports are on declarations of which no entry is stored.
local function unstored()
  local count, reports = 0, try('HSCAN', broken, 0, 'COUNT', few)
  for _, field in ipairs(reports and reports[2] or {}) do
    local entry = string.sub(schedule, 1, -10) .. string.sub(field, #':static:' + 1)
    if string.sub(field, 1, 8) == ':static:' and not is_own(schedule, entry) then count = count + 1 end
  end
  return count
end

local news, incidents = {}, {}

local function add_incident(place)
  local id = try('HGET', current, place)
  local names = {'kind', 'entry', 'opened', 'last', 'closed', 'why', 'count', 'base', 'times', 'latest', 'first', 'ack'}
  local values, one = id and try('HMGET', incident .. id, unpack(names)) or {}, {id}
  if values[2] and values[8] and not values[5] then -- what has ended badly since the last look of a beat counts, too
    local entry = string.sub(schedule, 1, -10) .. values[2]
    values[7] = string.format('%.0f', count_bad_ends(entry, values[7], values[8], unpack(ARGV, 6)))
  end
  for position, name in ipairs(names) do
    local is_short = values[position] and #values[position] <= 4096
    if is_short then one[#one + 1], one[#one + 2] = name, values[position] end
  end
  if #one > 1 then incidents[#incidents + 1] = one end
  return #one > 1 and not values[5] and not values[12]
end

-- Return how many delays there are; nil where there are none and no beat sends any.
local function count_delays()
  local number = try('ZCARD', delays) or 0
  if number == 0 and not try('GET', sender) then return nil end
  return {
    waiting = number,
    late = try('ZCOUNT', delays, '-inf', server_time(-1)) or 0,
    failing = try('HLEN', unsent) or 0,
    next = (try('ZRANGEBYSCORE', delays, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1) or {})[2],
  }
end

-- Count the incidents that are open and that nobody has acknowledged, by kind, and read the newest of each. A beat from
-- before that list has not put a lost schedule into it.
local function read_incidents()
  local lost = 'schedule_lost '
  for _, place in ipairs(try('ZREVRANGEBYSCORE', opened, '+inf', 0, 'LIMIT', 0, 20000) or {}) do
    local kind = parts_of(place) or ''
    news[kind] = (news[kind] or 0) + 1
    if news[kind] <= tonumber(shown) then add_incident(place) end
  end
  if not news.schedule_lost and not try('ZSCORE', opened, lost) and add_incident(lost) then news.schedule_lost = 1 end
end

read_incidents()
local overdue, oldest, now, oldest_key = count_late(schedule, failing, 0, most)
local lines = try('HSCAN', beats, 0, 'COUNT', 100)
local counted, cursor = {}, '0'
repeat
  local page = try('HSCAN', totals, cursor, 'COUNT', 1000) or {'0', {}}
  cursor = page[1]
  for _, text in ipairs(page[2]) do
    counted[#counted + 1] = text
  end
until cursor == '0' or #counted > 30000
return cjson.encode({
  now = now,
  scheduled = redis.call('ZCOUNT', schedule, 0, '+inf'),
  dormant = redis.call('ZCOUNT', schedule, '-inf', '(0'),
  failing = try('ZCARD', failing) or 0,
  broken = try('HLEN', broken) or 0,
  overdue = overdue,
  oldest = oldest,
  oldest_key = oldest_key,
  pause = try('GET', pause) or nil,
  pause_left = redis.call('PTTL', pause),
  lock = try('GET', lock) or '',
  lock_left = redis.call('PTTL', lock),
  zone = text_at(zone) or '',
  id = try('GET', id) or '',
  active = try('ZCARD', active) or 0,
  resend = try('ZCARD', resend) or 0,
  failed = try('ZCARD', failed) or 0,
  unstable = try('ZCARD', unstable) or 0,
  unstarted = try('ZCOUNT', waiting, 0, now - soon) or 0,
  unstarted_entries = entries_of(try('ZRANGEBYSCORE', waiting, 0, now - soon, 'LIMIT', 0, few), 'SENT'),
  running_entries = entries_of(try('ZRANGEBYSCORE', active, '-inf', '+inf', 'LIMIT', 0, few), 'STARTED'),
  unstored = unstored(),
  incidents = incidents,
  news = news,
  passed = text_at(passed) or '',
  notices = try('ZCOUNT', notices, '-inf', now) or 0,
  told = (try('HSCAN', told, 0, 'COUNT', 200) or {})[2] or {},
  beats = lines and lines[2] or {},
  totals = counted,
  delays = count_delays(),
})
