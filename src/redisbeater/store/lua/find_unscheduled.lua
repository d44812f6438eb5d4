-- Find entries that are missing from the schedule: one page of a walk through all keys.
--
-- Keys are walked, not asked for by name, because a writer that forgot the member left nothing else behind. A page is
-- bounded by its count. On a cluster the walk stays on the node of the schedule, where all its entries are. Left out
-- are keys that can be no entry's, and hashes that are not of this schedule, as far as a page has time to read them:
-- the caller reads what is found by load, which answers that there is none.
--
-- KEYS[1] schedule  sorted set: entry key -> UNIX seconds
-- KEYS[2] broken    hash: entry name -> why it is quarantined
-- ARGV[1] cursor    text: where the last page ended; '0': from the beginning
-- ARGV[2] pattern   text: glob that the entry keys match
-- ARGV[3] prefix    text: what every entry key begins with
-- ARGV[4] count     number of keys that are looked at
-- ARGV[5] enough    bytes of definitions: then no other one is read, but found
-- Returns {cursor of the next page, '0': this was the last one; for each entry {its key, the bytes of its definition,
--      and whether it is listed as broken: 1 or 0}}
local schedule, broken = KEYS[1], KEYS[2]
local cursor, pattern, prefix, count, enough = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local read_bytes = 0

local function is_planned(key, name)
  return redis.call('ZSCORE', schedule, key) or redis.call('ZSCORE', schedule, name)
end

local function row(key, name)
  if not is_name(name) or is_planned(key, name) then return nil end
  local bytes = redis.call('HSTRLEN', key, 'definition')
  if bytes == 0 then return nil end
  if read_bytes + bytes <= tonumber(enough) then
    read_bytes = read_bytes + bytes
    if not is_own(schedule, key) then return nil end
  end
  local is_listed = try('HEXISTS', broken, name) or 0
  return {key, bytes, is_listed}
end

local page = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', count, 'TYPE', 'hash')
local unscheduled = {}
for _, key in ipairs(page[2]) do
  unscheduled[#unscheduled + 1] = row(key, string.sub(key, #prefix + 1))
end
return {page[1], unscheduled}
