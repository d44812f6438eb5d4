-- Count the entries that are late. The score of a failing entry is its next try; it is late since the fire time that it
-- owes.
--
-- KEYS[1] schedule  sorted set: entry key -> UNIX seconds
-- KEYS[2] failing   sorted set: entry key -> the fire time that it owes
-- ARGV[1] seconds   an entry is late when it was due longer ago than this
-- ARGV[2] most      number of failing entries that are looked at
-- Returns {number of entries, the earliest time for which one of them waits; '' without one, the server's time, the key
--      of that entry}
local schedule, failing = KEYS[1], KEYS[2]
local seconds, most = ARGV[1], ARGV[2]

return {count_late(schedule, failing, seconds, most)}
