-- Undo a claim whose reply was lost: nobody knows of its entries, which would wait for the end of the lease.
--
-- The entries become due again with the fire times that they had. An entry that was edited since is left as it is.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] receipt    string: the end of the claim's lease; missing when the claim took nothing, or its lease has ended
-- ARGV[1] claim_id   text: the claim
-- Returns how many entries were released
local schedule, receipt = KEYS[1], KEYS[2]
local claim_id = ARGV[1]

local lease_end = text_at(receipt)
if not instant(lease_end) then return 0 end
local restored = 0
for _, key in ipairs(redis.call('ZRANGEBYSCORE', schedule, lease_end, lease_end)) do
  local stored = read(key, 'claim', 'fire_time', 'look_at', 'is_due_now')
  if stored.claim == claim_id and is_later_look(lease_end, stored) then
    restore(schedule, key, stored)
    restored = restored + 1
  end
end
redis.call('DEL', receipt)
return restored
