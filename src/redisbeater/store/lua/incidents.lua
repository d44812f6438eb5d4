-- Open, close or acknowledge incidents. Each fact is checked again here, so that of several beats that have seen it one
-- writes it; that one is told so, and says so.
--
-- The hash of an incident shares the slot by construction: its key is the prefix, ':incident:' and the id. So do the
-- lists of what is wrong, entries and their logs, whose keys are built from the key of the schedule.
--
-- KEYS[1] incidents  sorted set: id of an incident -> when it was opened
-- KEYS[2] current    hash: kind, blank, entry -> id of the incident that is open, or ended a short time ago
-- KEYS[3] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[4] id         string: identity of this schedule
-- KEYS[5] answer     string: what this call has answered, kept for a minute
-- KEYS[6] open_ones  sorted set: kind, blank, entry -> when it was opened, negative once somebody has acknowledged it
-- KEYS[7] notices    sorted set: receiver, blank, id of an incident, blank, 'opened' or 'closed' -> when to tell that
-- ARGV[1] prefix     text: the key of an incident, without its id
-- ARGV[2] keep       milliseconds for which an incident is kept after its end
-- ARGV[3] again      seconds after its end in which it is opened again
-- ARGV[4] most       number of incidents that are kept
-- ARGV[5] lines      number of lines that the log of an entry keeps
-- ARGV[6] soon       seconds until somebody is told: what follows until then is told with it
-- ARGV[7] changes    JSON, a list; each has a verb, and kind and entry: what is wrong, empty: with the schedule.
--                    open: {id: of a new incident, why, fingerprint, count: bad ends, or entries that there were,
--                    first: what is known, an object}, and what there is of: since, notify: who is told, a list, most:
--                    so many bad ends in a row are none, within: seconds, run: its id, for its traceback, line: for
--                    the log of the entry; of a lost schedule identity, or members: keys of entries without a hash.
--                    record: the same, with at: when it had ended already. touch: {fingerprint, first: what is known
--                    now}. close: {line}, and is_disabled where a person has disabled the entry. acknowledge: {id, ack:
--                    text, closes: whether it ends with that}. forget: that an entry is to end well in time, which it
--                    need not. clear: {cursor}: forget what ended a while ago
-- ARGV[8..] bad      fields of an entry that count its bad ends
-- Returns for each {word, id, count, left}: 'OPENED', 'RECORDED', 'KNOWN': it is recorded, 'CHANGED': it fails in
--      another way, 'UNTRUE': it is not so, 'CLOSED', 'OPEN', 'ACKNOWLEDGED', 'MISSING', 'FORGOTTEN' or 'CLEARED', with
--      the next cursor as id; how many entries there were or how often it failed, and how many entries there are, as
--      texts
local incidents, current, schedule, id, answer, open_ones = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local notices = KEYS[7]
local prefix, keep, again, most, lines, soon, changes = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

local now, left = server_time(), redis.call('ZCARD', schedule)
local base = string.sub(schedule, 1, -10) -- the key of the schedule is the prefix and ':schedule'

local function place_of(fact) return fact.kind .. ' ' .. fact.entry end

local function answered(word, incident_id, count)
  return {word, incident_id or '', string.format('%.0f', tonumber(count) or 0), tostring(left)}
end

-- Return the id that stands for a kind and an entry, the key of that incident and what is stored; nil: none may be.
local function known_as(fact)
  local known = try('HGET', current, place_of(fact))
  if known == nil then return nil end
  local names = {'opened', 'closed', 'times', 'count', 'base', 'fingerprint', 'ack', 'notify'}
  return known, prefix .. (known or ''), known and read(prefix .. known, unpack(names)) or {}
end

-- Return how many entries there were if some are gone that nobody deleted, else nil.
local function lost(fact)
  if fact.members then
    local gone = 0
    for _, member in ipairs(fact.members) do
      if redis.call('TYPE', member).ok == 'none' then gone = gone + 1 end
    end
    return gone > 0 and math.max(fact.count, left + gone) or nil
  end
  local stored = try('GET', id)
  if stored == nil or stored == fact.identity then return nil end
  if stored and stored == try('HGET', current, 'identity') then return nil end
  return left < fact.count and fact.count or nil
end

local function is_there(entry) return entry ~= '' and redis.call('TYPE', base .. entry).ok == 'hash' end

-- Tell whether an entry is not to run any more: it is disabled, or has finished.
local function is_dormant(entry)
  local score = redis.call('ZSCORE', schedule, base .. entry)
  return tonumber(score or 0) < 0
end

-- Tell whether something is wrong. Of an entry that is deleted only its report may be.
local function is_wrong(fact)
  if fact.kind ~= 'broken' and fact.entry ~= '' and not is_there(fact.entry) then return false end
  return wrong_since(base, fact.kind, fact.entry, fact.within) and true or false
end

-- Return how many entries there were, or how often it failed, if an incident is to be opened, else nil.
local function truth(fact)
  if fact.kind == 'schedule_lost' then return lost(fact) end
  if not is_wrong(fact) then return nil end
  local letters = fact.most and ends_of(read(base .. fact.entry, 'ends').ends)
  if letters and #letters - (string.find(letters, 'S[^S]*$') or 0) <= fact.most then return nil end
  return fact.count or 0
end

-- Tell whether what is listed was an incident that has ended, and nothing new has happened since then: a person has
-- disabled the entry meanwhile, or knows of it.
local function is_settled(fact, known, stored)
  if not known or fact.kind ~= 'failed' and fact.kind ~= 'overdue' then return false end
  local _, at = ends_of(read(base .. fact.entry, 'ends').ends)
  if fact.kind == 'overdue' then at = tonumber(fact.since) end
  return at <= (tonumber(stored.closed) or now - keep / 1000)
end

-- Remove the ids of incidents that are not kept any more, and of too many those that ended first.
local function trim()
  for _, old in ipairs(try('ZRANGEBYSCORE', incidents, '-inf', now - keep / 1000, 'LIMIT', 0, 100) or {}) do
    if redis.call('TYPE', prefix .. old).ok == 'none' then redis.call('ZREM', incidents, old) end
  end
  local excess = (try('ZCARD', incidents) or 0) - most
  for _, old in ipairs(excess > 0 and try('ZRANGEBYSCORE', incidents, '-inf', '+inf', 'LIMIT', 0, 200) or {}) do
    if excess > 0 and redis.call('PTTL', prefix .. old) ~= -1 then
      redis.call('DEL', prefix .. old)
      redis.call('ZREM', incidents, old)
      excess = excess - 1
    end
  end
end

local function is_recent(closed, at) return closed and at - (tonumber(closed) or 0) < tonumber(again) end

local function log(fact)
  if fact.line and is_there(fact.entry) then add_to_log(base .. ':log:' .. fact.entry, lines, fact.line) end
end

-- Tell whether it has happened 1, 2, 4, 8 ... times.
local function is_power_of_two(times)
  while times > 1 do
    times = times / 2
  end
  return times == 1
end

-- Let the receivers of an incident be told what has become of it. `times`: how often it has begun; `is_new`: it has
-- begun now, perhaps to fail in another way.
--
-- What waits to be told is replaced. A receiver that knows nothing of it yet is told when that was to be: what comes
-- and goes would be put off for ever. That it has begun again is told at the 2nd, 4th, 8th time, at others if it lasts,
-- unless the receiver does not know that it had ended. That it has ended again is told once it stays so.
local function let_know(key, incident_id, receivers, what, times, is_new)
  local other = what == 'opened' and 'closed' or 'opened'
  local is_told = is_new and is_power_of_two(times)
  for receiver in string.gmatch(receivers or '', '%S+') do
    local member = receiver .. ' ' .. incident_id .. ' '
    local known = try('HGET', key, 'told ' .. receiver)
    local waits = try('ZSCORE', notices, member .. other) or try('ZSCORE', notices, member .. what)
    local at = now + soon
    if not known then
      at = math.min(at, tonumber(waits or at))
    elseif what == 'opened' and not is_told then
      at = now + (known == what and 86400 or again)
    elseif what == 'closed' and known == 'opened' and times > 1 and not is_new then
      at = now + again
    end
    try('ZREM', notices, member .. other)
    if what == 'opened' or known ~= what or is_told then try('ZADD', notices, at, member .. what) end
  end
end

-- Return what is known as it is stored, with the traceback of its run.
local function text_of(fact)
  local traceback = fact.run and try('GETRANGE', base .. ':traceback:' .. fact.run, 0, 65535)
  if traceback and traceback ~= '' then fact.first.traceback = traceback end
  return cjson.encode(fact.first)
end

-- Store that one begins, or begins again, and return its id. `ended`: when it had ended already.
local function begin(fact, known, stored, count, ended)
  local first = text_of(fact)
  local is_again = stored.opened and is_recent(stored.closed, ended and fact.since or now)
  local key, place = prefix .. (is_again and known or fact.id), place_of(fact)
  local opened = is_again and stored.opened or fact.since or now
  local number = is_again and (tonumber(stored.times) or 1) + 1 or 1
  local told = {'why', fact.why, 'fingerprint', fact.fingerprint, 'latest', first, 'last', ended or now}
  redis.call('HSET', key, 'times', string.format('%.0f', number), 'count', count, unpack(told))
  if fact.within then redis.call('HSET', key, 'within', fact.within) end
  if fact.kind == 'failed' then
    redis.call('HSET', key, 'base', bad_ends(base .. fact.entry, unpack(ARGV, 8)) - count)
  end
  if is_again then
    redis.call('HDEL', key, 'closed', 'ack')
    redis.call('PERSIST', key)
  else
    redis.call('HSET', key, 'kind', fact.kind, 'entry', fact.entry, 'opened', opened, 'first', first)
    redis.call('HSET', current, place, fact.id)
    try('ZADD', incidents, opened, fact.id)
    trim()
  end
  if ended then
    redis.call('HSET', key, 'closed', ended)
    redis.call('PEXPIRE', key, keep)
  else
    try('ZADD', open_ones, opened, place)
  end
  log(fact)
  local incident_id, receivers = is_again and known or fact.id, table.concat(fact.notify or {}, ' ')
  if receivers ~= '' then redis.call('HSET', key, 'notify', receivers) end
  let_know(key, incident_id, receivers, ended and 'closed' or 'opened', number, true)
  return incident_id
end

local function open(fact)
  local count = truth(fact)
  if not count then return answered('UNTRUE') end
  if redis.call('TYPE', prefix .. fact.id).ok ~= 'none' then return answered('KNOWN', fact.id, count) end
  if fact.kind == 'schedule_lost' then
    fact.first.entries, fact.first.left = count, left
  end
  local known, key, stored = known_as(fact)
  if known == nil then return answered('UNTRUE') end
  if stored.opened and not stored.closed then
    redis.call('HSET', key, 'last', now, 'latest', text_of(fact))
    return answered('KNOWN', known, count)
  end
  if is_settled(fact, known, stored) then return answered('UNTRUE') end
  return answered('OPENED', begin(fact, known, stored, count), count)
end

local function record(fact)
  local known, _, stored = known_as(fact)
  if known == nil then return answered('UNTRUE') end
  local is_known = stored.opened and (tonumber(stored.closed) or math.huge) >= tonumber(fact.at)
  if is_known or redis.call('TYPE', prefix .. fact.id).ok ~= 'none' then return answered('KNOWN', known or fact.id) end
  return answered('RECORDED', begin(fact, known, stored, fact.count, fact.at), fact.count)
end

local function touch(fact)
  local known, key, stored = known_as(fact)
  if not known or not stored.opened or stored.closed then return answered('MISSING') end
  local is_other = stored.fingerprint ~= fact.fingerprint
  redis.call('HSET', key, 'last', now, 'latest', cjson.encode(fact.first), 'fingerprint', fact.fingerprint)
  if is_other and stored.ack then
    redis.call('HDEL', key, 'ack')
    let_know(key, known, stored.notify, 'opened', 1, true)
    try('ZADD', open_ones, stored.opened, place_of(fact))
  end
  return answered(is_other and 'CHANGED' or 'KNOWN', known)
end

local function end_it(key, incident_id, fact, stored)
  local count = count_bad_ends(base .. fact.entry, stored.count, stored.base, unpack(ARGV, 8))
  redis.call('HSET', key, 'closed', now, 'last', now, 'count', count)
  redis.call('PEXPIRE', key, keep)
  try('ZREM', open_ones, place_of(fact))
  let_know(key, incident_id, stored.notify, 'closed', tonumber(stored.times) or 1, false)
  log(fact)
  return count
end

-- Tell whether one that is open goes on: it is not over, or nobody has disabled its entry after all.
local function goes_on(fact, key, stored)
  if fact.kind == 'schedule_lost' then return left < (tonumber(stored.count) or 0) end
  fact.within = read(key, 'within').within
  if fact.is_disabled then return not is_dormant(fact.entry) end
  return is_wrong(fact)
end

local function close(fact)
  local known, key, stored = known_as(fact)
  if not known then return answered('MISSING') end
  if not stored.opened or stored.closed then
    try('ZREM', open_ones, place_of(fact))
    return answered('MISSING')
  end
  if goes_on(fact, key, stored) then return answered('OPEN', known, stored.count) end
  return answered('CLOSED', known, end_it(key, known, fact, stored))
end

local function acknowledge(fact)
  local key = prefix .. fact.id
  local stored = read(key, 'opened', 'closed', 'count', 'base', 'kind', 'entry', 'times', 'notify')
  if not stored.opened then return answered('MISSING') end
  redis.call('HSET', key, 'ack', fact.ack)
  stored.kind, stored.entry = stored.kind or '', stored.entry or ''
  if not stored.closed and (fact.closes or stored.kind == 'failed' and is_dormant(stored.entry)) then
    return answered('CLOSED', fact.id, end_it(key, fact.id, stored, stored))
  end
  for receiver in string.gmatch(stored.notify or '', '%S+') do
    local has_told = try('HGET', key, 'told ' .. receiver) -- who knows of it is not told once more
    if has_told then try('ZREM', notices, receiver .. ' ' .. fact.id .. ' opened') end
  end
  if not stored.closed then try('ZADD', open_ones, 'XX', '-' .. stored.opened, place_of(stored)) end
  return answered('ACKNOWLEDGED', fact.id, stored.count)
end

local function forget(fact)
  try('ZREM', base .. ':promises', base .. fact.entry)
  if is_there(fact.entry) then try('HDEL', base .. fact.entry, 'span') end
  return answered('FORGOTTEN')
end

-- Forget which incident stands for what has ended a while ago. What failed last, and is not to fail again, stays known.
-- An older beat has opened one without listing it.
local function clear(fact)
  local page = try('HSCAN', current, fact.cursor, 'COUNT', 200) or {'0', {}}
  for i = 1, #page[2], 2 do
    local place, stored = page[2][i], read(prefix .. page[2][i + 1], 'opened', 'closed')
    local kind, entry = parts_of(place)
    local is_over = kind and (not stored.opened or stored.closed and not is_recent(stored.closed, now))
    local list = ({failed = ':failed', overdue = ':promises'})[kind]
    if is_over and not (list and try('ZSCORE', base .. list, base .. entry)) then
      redis.call('HDEL', current, place)
    elseif kind and stored.opened and not stored.closed and not try('ZSCORE', open_ones, place) then
      try('ZADD', open_ones, stored.opened, place)
    end
  end
  return answered('CLEARED', page[1])
end

local given = given_answer(answer)
if given then return given end
local VERBS = {
  open = open, record = record, touch = touch, close = close, acknowledge = acknowledge, forget = forget, clear = clear
}
local outcomes = {}
for place, fact in ipairs(cjson.decode(changes)) do
  fact.kind, fact.entry = fact.kind or '', fact.entry or ''
  outcomes[place] = VERBS[fact.verb](fact)
end
return answer_once(answer, outcomes)
