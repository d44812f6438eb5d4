-- Look at one page of the schedule, in no order: on which zones do the entries depend, beside the one that they
-- inherit, and which of them may a change of some zones move? The caller reads those that are kept, also one that
-- cannot be read here. An interval depends on no zone, unless it has a date, which has a type as schedules have.
--
-- What a call has no time for is left for the next one. Entry keys are read from the schedule, not passed in KEYS: they
-- share its slot by construction.
--
-- KEYS[1] schedule  sorted set: entry key -> UNIX seconds
-- ARGV[1] cursor    text: where the last page ended; '0': from the beginning
-- ARGV[2] count     number of entries that are looked at, twice as many at most
-- ARGV[3] enough    bytes of definitions: then no other entry is looked at
-- ARGV[4] most      bytes of a definition: one that has more is broken, and left out
-- ARGV[5] prefix    text: what every entry key begins with
-- ARGV[6] changed   JSON: {zone: true}: those that move entries; '': that which entries inherit
-- ARGV[7] left      JSON: members and scores in turn, as the last call has left them; '{}': look at the next page
-- Returns {cursor of the next page, '0': this was the last one; JSON: {zone: true}; JSON: members and scores that are
--      kept; JSON: those left}
local schedule = KEYS[1]
local cursor, count, enough, most, prefix = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local changed, left = ARGV[6], ARGV[7]

local moved, page = cjson.decode(changed), cjson.decode(left)
local zones, kept, rest, bytes = {}, {}, {}, 0
-- Fields that name no zone, whatever they hold.
local others = {args = true, kwargs = true, options = true, labels = true, description = true, task = true, name = true}

local function is_plain_interval(definition)
  local rest_of_it, intervals = string.gsub(definition, '"__type__"%s*:%s*"interval"', '')
  return intervals > 0 and not string.find(rest_of_it, '__type__', 1, true)
end

-- Add the names of zones in what was decoded: those of fields, and those in the text of a rule.
local function add_zones(found, value, field)
  if type(value) == 'string' and field == 'timezone' then found[string.gsub(value, '^posix/', '')] = true end
  if type(value) == 'string' and field == 'text' then
    for name in string.gmatch(value, '[Tt][Zz][Ii][Dd]="?([^:;"]+)') do
      found[string.gsub(name, '^posix/', '')] = true
    end
  end
  if type(value) ~= 'table' then return end
  for name, part in pairs(value) do
    if not (field == '' and others[name]) then add_zones(found, part, name) end
  end
end

-- Return the zones of a definition, and whether it has one for all that names none; nil where it cannot be read.
local function zones_of(definition)
  local found = {}
  local is_json, fields = pcall(cjson.decode, definition)
  if not is_json or type(fields) ~= 'table' then return nil end
  add_zones(found, fields, '')
  return found, type(fields.timezone) == 'string'
end

local function may_move(definition)
  local may_name = string.find(definition, 'timezone', 1, true) or string.find(definition, '"rrule"', 1, true)
  if not (may_name or moved['']) or is_plain_interval(definition) then return false end
  if not may_name then return true end
  local found, has_own = zones_of(definition)
  if not found then return true end
  local is_moved = moved[''] and not has_own
  for name in pairs(found) do
    zones[name], is_moved = true, is_moved or moved[name]
  end
  return is_moved
end

local function look_at(member, score)
  local key = string.sub(member, 1, #prefix) == prefix and member or prefix .. member
  local size = try('HSTRLEN', key, 'definition') or 0
  bytes = bytes + size
  if size == 0 or size > tonumber(most) then return end
  local definition = redis.call('HGET', key, 'definition')
  if may_move(definition) then
    kept[#kept + 1] = member
    kept[#kept + 1] = score
  end
end

if #page == 0 then cursor, page = unpack(redis.call('ZSCAN', schedule, cursor, 'COUNT', count)) end
for i = 1, #page, 2 do
  if i > 4 * count or bytes >= tonumber(enough) then
    rest[#rest + 1] = page[i]
    rest[#rest + 1] = page[i + 1]
  else
    look_at(page[i], page[i + 1])
  end
end
return {cursor, cjson.encode(zones), cjson.encode(kept), cjson.encode(rest)}
