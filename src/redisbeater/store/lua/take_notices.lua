-- Let one beat tell receivers what has become of incidents: each that has something to be told, whose time has come,
-- and that no other beat tells now. Executed twice, it gives the same beat the same.
--
-- KEYS[1] notices  sorted set: receiver, blank, id of an incident, blank, 'opened' or 'closed' -> when to tell that
-- KEYS[2] told     hash: receiver -> JSON of {told: when it was told last, next: it is not told before, tries: how
--                  often that has failed in a row, since: when first, problem: why last, by: the beat that tells it,
--                  till: for how long; times in UNIX seconds, as texts}
-- ARGV[1] token       text: names the beat
-- ARGV[2] lease       seconds for which no other beat tells them
-- ARGV[3] most        number of notices that are looked at
-- ARGV[4] others      receivers, with blanks between: they are told what is addressed to one that there is not any more
-- ARGV[5..] receivers that there are
-- Returns JSON of {now: the server's time, taken: of each receiver that this beat is to tell a list of it and of the
--      notices, each an id, a blank and what has become of the incident}
local notices, told = KEYS[1], KEYS[2]
local token, lease, most, others = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local now = server_time()

local function state_of(receiver)
  local is_json, state = pcall(cjson.decode, try('HGET', told, receiver) or '')
  return is_json and type(state) == 'table' and state or {}
end

local function is_past(text) return (tonumber(text) or 0) <= tonumber(now) end

-- Address a notice to others.
local function move(member, rest)
  local at = try('ZSCORE', notices, member)
  for receiver in string.gmatch(rest and others or '', '%S+') do
    try('ZADD', notices, 'NX', at, receiver .. ' ' .. rest)
  end
  try('ZREM', notices, member)
end

local is_known, free = {}, {}
for place = 5, #ARGV do
  local state = state_of(ARGV[place])
  is_known[ARGV[place]] = true
  if is_past(state.next) and (state.by == token or is_past(state.till)) then free[ARGV[place]] = state end
end
local stored = (try('HSCAN', told, 0, 'COUNT', 200) or {})[2] or {}
for place = 1, #stored, 2 do
  if not is_known[stored[place]] then try('HDEL', told, stored[place]) end
end

local of, taken = {}, {}
for _, member in ipairs(next(free) and try('ZRANGEBYSCORE', notices, '-inf', now, 'LIMIT', 0, most) or {}) do
  local receiver, rest = parts_of(member)
  local state = free[receiver or '']
  if not is_known[receiver or ''] then
    move(member, rest)
  elseif state then
    if not of[receiver] then
      of[receiver] = {receiver}
      taken[#taken + 1] = of[receiver]
      state.by, state.till = token, string.format('%.6f', now + lease)
      try('HSET', told, receiver, cjson.encode(state))
    end
    local page = of[receiver]
    page[#page + 1] = rest
  end
end
return cjson.encode({now = now, taken = taken})
