-- Remove members of the schedule that stand for no entry, and make dormant those whose name no entry can have.
--
-- Another program, such as RedBeat, may run an entry of such a name: its member and its hash stay, and it is listed as
-- broken. A member that is its bare name is corrected.
--
-- The claim does not do this itself, because it does not name the keys that it looks for: while a cluster moves the
-- slot, a hash that is still on the other node looks like none. Here they are in KEYS, and the server refuses until all
-- are on one node.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] broken     hash: entry name -> why it is quarantined
-- KEYS[3..] entries  hashes: what the members may stand for, two for each
-- ARGV[1..] members  text: an entry key, or the bare name of an entry; behind each its report, as JSON text; empty
--                    where an entry can have its name
-- Returns for each member 'REMOVED', 'QUARANTINED', or 'KEPT': there is a hash by now
local schedule, broken = KEYS[1], KEYS[2]
local outcomes, stored = {}, {}

local function settle(member, report, entry)
  if not entry then
    redis.call('ZREM', schedule, member)
    return 'REMOVED'
  end
  local name = string.sub(entry, #schedule - 8) -- the key of the schedule is the prefix and ':schedule'
  if is_name(name) then return 'KEPT' end
  local score = redis.call('ZSCORE', schedule, member) or redis.call('ZSCORE', schedule, entry) -- again: it is there
  redis.call('ZREM', schedule, member)
  redis.call('ZADD', schedule, string.format('-%.6f', math.max(math.abs(score or 0), 1)), entry)
  try('HSET', broken, name, report)
  return 'QUARANTINED'
end

for i = 3, #KEYS do
  local position = math.floor((i - 1) / 2)
  stored[position] = stored[position] or try('HEXISTS', KEYS[i], 'definition') == 1 and KEYS[i]
end
for i = 1, #ARGV, 2 do
  local position = (i + 1) / 2
  outcomes[position] = settle(ARGV[i], ARGV[i + 1], stored[position])
end
return outcomes
