-- Store a calendar, or delete one, and raise the number of the newest change, by which all programs notice it.
--
-- The number is also above the seconds since 1970, so that it rises where the key was lost. The days of the version
-- before stay beside the new ones until all entries are planned by these. When the script is executed twice, because
-- its reply was lost, the second time writes the same once more.
--
-- KEYS[1] calendars  hash: name of a calendar -> its version; ':version': the newest change
-- KEYS[2] calendar   hash: the calendar
-- ARGV[1] name       text: its name
-- ARGV[2] fields     JSON: what is stored, by field; '{}': the calendar is deleted
-- ARGV[3] most       number of calendars that a schedule has
-- ARGV[4] channel    text: where beats listen for changes
-- ARGV[5] message    text: what is published there
-- Returns the number of this change, as text; or 'FULL': there are too many calendars, and nothing was written
local calendars, calendar = KEYS[1], KEYS[2]
local name, fields, most, channel, message = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local new = cjson.decode(fields)
local is_new = redis.call('HEXISTS', calendars, name) == 0
local of_schedule = redis.call('HLEN', calendars) - redis.call('HEXISTS', calendars, ':version')
of_schedule = of_schedule - redis.call('HEXISTS', calendars, ':planned')
if next(new) and is_new and of_schedule >= tonumber(most) then return 'FULL' end

local newest = tonumber(redis.call('HGET', calendars, ':version') or 0) or 0
local version = string.format('%.0f', math.max(newest + 1, math.floor(server_time())))
if next(new) then
  local before = read(calendar, 'version', 'first', 'last', 'days')
  if before.version and before.days then
    local days = table.concat({before.first or '', before.last or '', before.days}, ' ')
    redis.call('HSET', calendar, 'before:' .. before.version, days)
  end
  for field, text in pairs(new) do redis.call('HSET', calendar, field, text) end
  redis.call('HSET', calendar, 'version', version)
  redis.call('HSET', calendars, name, version)
else
  redis.call('DEL', calendar)
  redis.call('HDEL', calendars, name)
end
redis.call('HSET', calendars, ':version', version)
redis.call('PUBLISH', channel, message)
return version
