-- Remove a member of the schedule that has no hash.
--
-- The claim does not do this itself, because it does not name the keys that it looks for: while a cluster moves the slot,
-- a hash that is still on the other node looks like none. Here it is in KEYS, and the server refuses until all are on one
-- node.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2..] entries  hashes: what the member may stand for
-- ARGV[1] member     text: an entry key, or the bare name of an entry
-- Returns 'REMOVED', or 'KEPT': there is a hash by now
local schedule = KEYS[1]
local member = ARGV[1]

for i = 2, #KEYS do
  local is_hash = redis.call('TYPE', KEYS[i]).ok == 'hash'
  if is_hash and redis.call('HEXISTS', KEYS[i], 'definition') == 1 then return 'KEPT' end
end
redis.call('ZREM', schedule, member)
return 'REMOVED'
