-- Open, close or acknowledge an incident. Each fact is checked again here, so that of several beats that have seen it
-- one writes it; that one is told so, and says so.
--
-- The hash of an incident shares the slot by construction: its key is the prefix, ':incident:' and the id.
--
-- KEYS[1] incidents  sorted set: id of an incident -> when it was opened
-- KEYS[2] current    hash: kind, blank, entry -> id of the incident that is open, or ended a short time ago
-- KEYS[3] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[4] id         string: identity of this schedule
-- KEYS[5] answer     string: what this call has answered, kept for a minute
-- ARGV[1] verb       text: 'open', 'close': close it if it is over, or 'acknowledge'
-- ARGV[2] prefix     text: the key of an incident, without its id
-- ARGV[3] keep       milliseconds for which an incident is kept after its end
-- ARGV[4] again      seconds after its end in which it is opened again
-- ARGV[5] text       JSON: to open: {id: of a new incident, kind, entry, why, fingerprint, count: entries that there
--                    were, identity: that of the schedule then, or members: keys of entries without a hash, first: what
--                    is known, an object}; to close: {kind, entry}; to acknowledge: {id, ack: text, closes: whether it
--                    ends with that}
-- Returns {word, id, count, left}: 'OPENED', 'KNOWN': it is recorded, 'UNTRUE': it is not so, 'CLOSED', 'OPEN',
--      'ACKNOWLEDGED' or 'MISSING'; how many entries there were, and how many there are, as texts
local incidents, current, schedule, id, answer = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local verb, prefix, keep, again, text = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local fact = cjson.decode(text)
local now, left = server_time(), redis.call('ZCARD', schedule)
local place = (fact.kind or '') .. ' ' .. (fact.entry or '')

local function reply(word, incident_id, count)
  return {word, incident_id or '', string.format('%.0f', tonumber(count) or 0), tostring(left)}
end

-- Return how many entries there were if some are gone that nobody deleted, else nil.
local function lost()
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

-- Remove the ids of incidents that are not kept any more.
local function trim()
  for _, old in ipairs(try('ZRANGEBYSCORE', incidents, '-inf', now - keep / 1000, 'LIMIT', 0, 100) or {}) do
    if redis.call('TYPE', prefix .. old).ok == 'none' then redis.call('ZREM', incidents, old) end
  end
end

local function is_recent(closed) return closed and now - (tonumber(closed) or 0) < tonumber(again) end

local function close(key)
  redis.call('HSET', key, 'closed', now, 'last', now)
  redis.call('PEXPIRE', key, keep)
end

local function open()
  local count = lost()
  if not count then return reply('UNTRUE') end
  if redis.call('TYPE', prefix .. fact.id).ok ~= 'none' then return reply('KNOWN', fact.id, count) end
  fact.first.entries, fact.first.left = count, left
  local first = cjson.encode(fact.first)
  local known = try('HGET', current, place)
  if known == nil then return reply('UNTRUE') end
  local key = prefix .. (known or fact.id)
  local stored = known and read(key, 'opened', 'closed', 'times') or {}
  if stored.opened and not stored.closed then
    redis.call('HSET', key, 'last', now, 'latest', first)
    return reply('KNOWN', known, count)
  end
  if stored.opened and is_recent(stored.closed) then
    local times = string.format('%.0f', (tonumber(stored.times) or 1) + 1)
    redis.call('HSET', key, 'last', now, 'latest', first, 'times', times, 'count', count, 'why', fact.why)
    redis.call('HDEL', key, 'closed', 'ack')
    redis.call('PERSIST', key)
    return reply('OPENED', known, count)
  end
  key = prefix .. fact.id
  redis.call('HSET', key, 'kind', fact.kind, 'entry', fact.entry, 'opened', now, 'last', now, 'why', fact.why,
    'count', count, 'times', '1', 'fingerprint', fact.fingerprint, 'first', first, 'latest', first)
  redis.call('HSET', current, place, fact.id)
  try('ZADD', incidents, now, fact.id)
  trim()
  return reply('OPENED', fact.id, count)
end

local function close_if_over()
  local known = try('HGET', current, place)
  if not known then return reply('MISSING') end
  local key = prefix .. known
  local stored = read(key, 'opened', 'closed', 'count')
  if stored.opened and not stored.closed then
    if left < (tonumber(stored.count) or 0) then return reply('OPEN', known, stored.count) end
    close(key)
    return reply('CLOSED', known, stored.count)
  end
  if not (stored.opened and is_recent(stored.closed)) then redis.call('HDEL', current, place) end
  return reply('MISSING')
end

local function acknowledge()
  local key = prefix .. fact.id
  local stored = read(key, 'opened', 'closed', 'count')
  if not stored.opened then return reply('MISSING') end
  redis.call('HSET', key, 'ack', fact.ack)
  if fact.closes and not stored.closed then
    close(key)
    return reply('CLOSED', fact.id, stored.count)
  end
  return reply('ACKNOWLEDGED', fact.id, stored.count)
end

local given = given_answer(answer)
if given then return given end
return answer_once(answer, ({open = open, close = close_if_over, acknowledge = acknowledge})[verb]())
