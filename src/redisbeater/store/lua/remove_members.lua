-- Remove members of the schedule that stand for no entry.
--
-- The claim does not do this itself, because it does not name the keys that it looks for: while a cluster moves the
-- slot, a hash that is still on the other node looks like none. Here they are in KEYS, and the server refuses until all
-- are on one node.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2..] entries  hashes: what the members may stand for, two for each
-- ARGV[1..] members  text: an entry key, or the bare name of an entry
-- Returns for each member 'REMOVED', or 'KEPT': there is a hash by now
local schedule = KEYS[1]
local has_hash, outcomes = {}, {}

local function remove(member, is_kept)
  if is_kept then return 'KEPT' end
  redis.call('ZREM', schedule, member)
  return 'REMOVED'
end

for i = 2, #KEYS do
  if try('HEXISTS', KEYS[i], 'definition') == 1 then has_hash[math.floor(i / 2)] = true end
end
for i, member in ipairs(ARGV) do outcomes[i] = remove(member, has_hash[i]) end
return outcomes
