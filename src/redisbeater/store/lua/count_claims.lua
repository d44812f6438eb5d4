-- Count the entries that beats have claimed and not committed yet. The score of such an entry is the end of its lease.
--
-- Entry keys are read from the schedule, not passed in KEYS: they share its slot by construction.
--
-- KEYS[1] schedule  sorted set: entry key -> UNIX seconds
-- ARGV[1] lease     seconds: no lease lasts longer
-- ARGV[2] most      number of entries that are looked at
-- ARGV[3] prefix    text: what every entry key begins with
-- Returns the number of entries
local schedule = KEYS[1]
local lease, most, prefix = ARGV[1], ARGV[2], ARGV[3]

local count = 0
for _, key in ipairs(redis.call('ZRANGEBYSCORE', schedule, server_time(), server_time(lease), 'LIMIT', 0, most)) do
  if string.sub(key, 1, #prefix) == prefix and read(key, 'claim').claim then count = count + 1 end
end
return count
