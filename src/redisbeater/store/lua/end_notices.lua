-- Record that a receiver was told what has become of incidents, or why not. It may be executed twice, but for the
-- number of tries.
--
-- The hash of an incident shares the slot by construction: its key is the prefix, ':incident:' and the id.
--
-- KEYS[1] notices  sorted set: receiver, blank, id of an incident, blank, 'opened' or 'closed' -> when to tell that
-- KEYS[2] told     hash: receiver -> JSON: see take_notices.lua
-- ARGV[1] prefix    text: the key of an incident, without its id
-- ARGV[2] receiver  text: its name
-- ARGV[3] outcome   'TOLD', 'PART': it was told, and more follows of that, 'FAILED', or 'LEFT': it was not tried
-- ARGV[4] problem   text: why it could not be told
-- ARGV[5..] notices of which it was told: each an id, a blank and what has become of the incident
-- Returns how often telling it has failed in a row, in how many seconds it is tried again, and how many notices are
--      dropped: they say that an incident has ended, and could not be told for a day
local notices, told = KEYS[1], KEYS[2]
local prefix, receiver, outcome, problem = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local now, day = server_time(), 86400

local function note_told(rest)
  local id, what = parts_of(rest)
  local stored = read(prefix .. id, 'opened', 'closed', 'ack')
  if stored.opened then redis.call('HSET', prefix .. id, 'told ' .. receiver, what) end
  local was_there = try('ZREM', notices, receiver .. ' ' .. rest) == 1
  local is_news = stored.opened and not stored.closed and not stored.ack
  if was_there and what == 'opened' and is_news then try('ZADD', notices, now + day, receiver .. ' ' .. rest) end
end

-- Drop what has ended too long ago, and return how much that was.
local function drop_old()
  local count = 0
  for _, member in ipairs(try('ZRANGEBYSCORE', notices, '-inf', now - day, 'LIMIT', 0, 1000) or {}) do
    local of, rest = parts_of(member)
    local _, what = parts_of(rest or '')
    if of == receiver and what == 'closed' then count = count + try('ZREM', notices, member) end
  end
  return count
end

for place = 5, #ARGV do
  note_told(ARGV[place])
end
if outcome == 'PART' then return {0, 0, 0} end
local is_json, state = pcall(cjson.decode, try('HGET', told, receiver) or '')
if not is_json or type(state) ~= 'table' then state = {} end
state.by, state.till = nil, nil
local tries, delay, dropped = 0, 60, 0
if outcome == 'TOLD' then
  state = {told = now, next = string.format('%.6f', now + delay)}
elseif outcome == 'FAILED' then
  tries = math.min((tonumber(state.tries) or 0) + 1, 1000)
  delay = math.min(60 * 2 ^ (tries - 1), 3600)
  state.tries, state.problem, state.since = tries, problem, state.since or now
  state.next = string.format('%.6f', now + delay)
  dropped = drop_old()
end
try('HSET', told, receiver, cjson.encode(state))
return {tries, delay, dropped}
