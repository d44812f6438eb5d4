-- Read a page of the entries that beat looks at later, and keep those whose fire time has passed: they are claimed, or
-- wait for another try or for their jitter. The score of such an entry only says when beat looks again.
--
-- Entry keys are read from the schedule, not passed in KEYS: they share its slot by construction.
--
-- KEYS[1] schedule  sorted set: entry key -> UNIX seconds
-- ARGV[1] now       UNIX seconds
-- ARGV[2] latest    UNIX seconds: entries that beat looks at after that are left out
-- ARGV[3] start     number of entries before the page
-- ARGV[4] most      number of entries of the page
-- ARGV[5] prefix    text: what every entry key begins with
-- Returns JSON: {read: how many entries the page has, keys: of those that are kept}
local schedule = KEYS[1]
local now, latest, start, most, prefix = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local keys = {}

local page = redis.call('ZRANGEBYSCORE', schedule, '(' .. now, latest, 'WITHSCORES', 'LIMIT', start, most)
for i = 1, #page, 2 do
  local key = page[i]
  local fields = string.sub(key, 1, #prefix) == prefix and read(key, 'look_at', 'fire_time') or {}
  if is_later_look(page[i + 1], fields) and instant(fields.fire_time) <= tonumber(now) then
    keys[#keys + 1] = key
  end
end
return cjson.encode({read = #page / 2, keys = keys})
