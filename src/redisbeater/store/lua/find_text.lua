-- Read a page of the schedule, and keep the entries with a text in name, task or description, in any case. One that cannot be
-- read here, or that has letters which count as several plain ones, is kept, too: whoever asks looks at it again.
--
-- Entry keys are read from the schedule, not passed in KEYS: they share its slot by construction.
--
-- KEYS[1] schedule  sorted set: entry key -> UNIX seconds
-- ARGV[1] lowest    score of the first entry, as ZRANGEBYSCORE takes it
-- ARGV[2] highest   score of the last one
-- ARGV[3] start     number of entries before the page
-- ARGV[4] most      number of entries of the page
-- ARGV[5] prefix    text: what every entry key begins with
-- ARGV[6] text      ASCII, in small letters
-- Returns JSON: {read: how many entries the page has, keys: of those that are kept}
local schedule = KEYS[1]
local lowest, highest, start, most, prefix, text = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local keys = {}

local function folds(value)
  if not string.find(value, '[\128-\255]') then return false end
  for _, letters in ipairs({'\195\159', '\196\176', '\197[\137\191]', '\199\176', '\225\186[\150-\158]', '\226\132\170', '\239\172[\128-\134]'}) do
    if string.find(value, letters) then return true end
  end
  return false
end

local function has_text(value)
  return type(value) == 'string' and (string.find(string.lower(value), text, 1, true) ~= nil or folds(value))
end

local function may_match(key)
  if string.sub(key, 1, #prefix) ~= prefix or has_text(string.sub(key, #prefix + 1)) then return true end
  local definition = try('HGET', key, 'definition') or ''
  local is_near = string.find(string.lower(definition), text, 1, true) or string.find(definition, '[\\\128-\255]')
  if not is_near then return false end
  local is_json, fields = pcall(cjson.decode, #definition <= 10000 and definition or '')
  return not is_json or type(fields) ~= 'table' or has_text(fields.task) or has_text(fields.description)
end

local page = redis.call('ZRANGEBYSCORE', schedule, lowest, highest, 'LIMIT', start, most)
for _, key in ipairs(page) do
  if may_match(key) then keys[#keys + 1] = key end
end
return cjson.encode({read = #page, keys = keys})
