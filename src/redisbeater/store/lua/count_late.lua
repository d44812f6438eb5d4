-- Count the entries that are late. The score of a failing entry is its next try; it is late since the fire time that it owes.
--
-- KEYS[1] schedule  sorted set: entry key -> UNIX seconds
-- KEYS[2] failing   sorted set: entry key -> the fire time that it owes
-- ARGV[1] seconds   an entry is late when it was due longer ago than this
-- ARGV[2] most      number of failing entries that are looked at
-- Returns {number of entries, the earliest time for which one of them waits; '' without one, the server's time}
local schedule, failing = KEYS[1], KEYS[2]
local seconds, most = ARGV[1], ARGV[2]

local now = server_time()
local limit = string.format('%.6f', now - seconds)
local count = redis.call('ZCOUNT', schedule, 0, limit)
local oldest = redis.call('ZRANGEBYSCORE', schedule, 0, limit, 'WITHSCORES', 'LIMIT', 0, 1)[2] or ''

local owed = try('ZRANGEBYSCORE', failing, 0, limit, 'WITHSCORES', 'LIMIT', 0, most) or {}
for i = 1, #owed, 2 do
  local score = tonumber(redis.call('ZSCORE', schedule, owed[i]) or -1)
  if score >= 0 and (oldest == '' or tonumber(owed[i + 1]) < tonumber(oldest)) then oldest = owed[i + 1] end
  if score > tonumber(limit) then count = count + 1 end
end
return {count, oldest, now}
