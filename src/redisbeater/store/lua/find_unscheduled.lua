-- Find entries that are missing from the schedule: one page of a walk through all keys.
--
-- Keys are walked, not asked for by name, because a writer that forgot the member left nothing else behind. A page is
-- bounded by its count. On a cluster the walk stays on the node of the schedule, where all its entries are.
--
-- KEYS[1] schedule  sorted set: entry key -> UNIX seconds
-- ARGV[1] cursor    text: where the last page ended; '0': from the beginning
-- ARGV[2] pattern   text: glob that the entry keys match
-- ARGV[3] prefix    text: what every entry key begins with
-- ARGV[4] count     number of keys that are looked at
-- Returns {cursor of the next page, '0': this was the last one; {entry key, ...}}
local schedule = KEYS[1]
local cursor, pattern, prefix, count = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local function is_planned(key)
  local name = string.sub(key, #prefix + 1)
  return redis.call('ZSCORE', schedule, key) or redis.call('ZSCORE', schedule, name)
end

local function is_entry(key)
  local is_internal = string.sub(key, #prefix + 1, #prefix + 1) == ':'
  return not is_internal and redis.call('HEXISTS', key, 'definition') == 1
end

local page = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', count, 'TYPE', 'hash')
local unscheduled = {}
for _, key in ipairs(page[2]) do
  if not is_planned(key) and is_entry(key) then unscheduled[#unscheduled + 1] = key end
end
return {page[1], unscheduled}
