-- Look at one page of the schedule, in no order, and keep the entries that may be wanted: by task, queue, labels,
-- whether they are disabled, and by a text in name, task, description or a label, in any case. One that cannot be read
-- here, or that has letters which count as several plain ones, is kept, too: the caller checks every one that is kept.
--
-- What a call has no time for is left for the next one. Entry keys are read from the schedule, not passed in KEYS: they
-- share its slot by construction.
--
-- KEYS[1] schedule  sorted set: entry key -> UNIX seconds
-- ARGV[1] cursor    text: where the last page ended; '0': from the beginning
-- ARGV[2] pattern   text: glob that the members match
-- ARGV[3] count     number of entries that are looked at, twice as many at most
-- ARGV[4] enough    bytes of definitions: then no other entry is looked at; one that has more is not read, but kept
-- ARGV[5] prefix    text: what every entry key begins with
-- ARGV[6] terms     JSON: {fields: values that a wanted definition has, parts: lists, of each of which a text is in its
--                   JSON; text: in small letters; '': any that is not ASCII; it is left out where none is asked for}
-- ARGV[7] left      JSON: members and scores in turn, as the last call has left them; '{}': look at the next page
-- Returns {cursor of the next page, '0': this was the last one; JSON: members and scores that are kept; JSON: those
--      left}
local schedule = KEYS[1]
local cursor, pattern, count, enough, prefix = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local terms, left = ARGV[6], ARGV[7]

local wanted, page = cjson.decode(terms), cjson.decode(left)
local kept, rest, bytes = {}, {}, 0
-- The beginnings of letters that count as several plain ones.
local several = {'\195\159', '\196\176', '\197\137', '\197\191', '\199\176', '\225\186', '\226\132\170', '\239\172'}

local function has_any(value, parts)
  for _, part in ipairs(parts) do
    if string.find(value, part, 1, true) then return true end
  end
end

local function has_text(value)
  if type(value) ~= 'string' then return false end
  if wanted.text == '' then return string.find(value, '[\128-\255]') end
  return has_any(string.lower(value), {wanted.text}) or has_any(value, several)
end

local function has_label(labels)
  for name, value in pairs(type(labels) == 'table' and labels or {}) do
    if has_text(name .. '=' .. tostring(value)) then return true end
  end
end

local function covers(found, fields)
  for name, value in pairs(fields) do
    local own = type(found) == 'table' and found[name]
    if own ~= value and not (type(value) == 'table' and covers(own, value)) then return false end
  end
  return true
end

local function may_be_wanted(key)
  local is_found = not wanted.text or has_text(string.sub(key, #prefix + 1))
  if string.sub(key, 1, #prefix) ~= prefix or is_found and #wanted.parts == 0 then return true end
  local size = try('HSTRLEN', key, 'definition') or 0
  if size > tonumber(enough) then return true end
  local definition = try('HGET', key, 'definition') or ''
  local is_near = is_found or has_any(definition, {'\\'}) or has_any(wanted.text, {'='}) or has_text(definition)
  for _, parts in ipairs(wanted.parts) do
    is_near = is_near and has_any(definition, parts)
  end
  bytes = bytes + size
  if not is_near then return false end
  local is_json, fields = pcall(cjson.decode, size <= 10000 and definition or '')
  if not is_json or type(fields) ~= 'table' then return true end
  if (fields.disabled_until or cjson.null) ~= cjson.null then fields.enabled = false end
  return covers(fields, wanted.fields) and
    (is_found or has_text(fields.task) or has_text(fields.description) or has_label(fields.labels))
end

if #page == 0 then
  cursor, page = unpack(redis.call('ZSCAN', schedule, cursor, 'MATCH', pattern, 'COUNT', count))
end
for i = 1, #page, 2 do
  local is_left = i > 4 * count or bytes >= tonumber(enough)
  local list = is_left and rest or may_be_wanted(page[i]) and kept
  if list then
    list[#list + 1] = page[i]
    list[#list + 1] = page[i + 1]
  end
end
return {cursor, cjson.encode(kept), cjson.encode(rest)}
