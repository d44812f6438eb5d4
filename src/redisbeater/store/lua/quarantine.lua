-- Quarantine one claimed entry: make it dormant, and list it as broken with the reason.
--
-- When its definition was replaced since, the new one is tried: the entry stays in the schedule, with the fire time that
-- it had, or with the score that was set since.
--
-- KEYS[1] schedule    sorted set: entry key -> UNIX seconds
-- KEYS[2] broken      hash: entry name -> why it is quarantined
-- KEYS[3] entry       hash: the claimed entry
-- ARGV[1] claim_id    text: the claim under which it was read
-- ARGV[2] name        text: its name
-- ARGV[3] definition  text: SHA-1 of the definition that is broken; '': it was not read, so that it is not compared
-- ARGV[4] report      text: why and since when, JSON
-- Returns 'QUARANTINED', 'EDITED': the definition was replaced, or 'FENCED': the claim is not ours any more
local schedule, broken, entry = KEYS[1], KEYS[2], KEYS[3]
local claim_id, name, definition, report = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local stored = read(entry, 'claim', 'fire_time', 'look_at', 'is_due_now')
if stored.claim ~= claim_id then return 'FENCED' end
local is_ours = is_later_look(redis.call('ZSCORE', schedule, entry), stored)
if definition ~= '' and redis.sha1hex(read(entry, 'definition').definition or '') ~= definition then
  if is_ours then restore(schedule, entry, stored) else clear_claim(entry) end
  return 'EDITED'
end
clear_claim(entry)
redis.call('ZADD', schedule, instant(stored.fire_time) and '-' .. stored.fire_time or '-1', entry)
try('HSET', broken, name, report)
return 'QUARANTINED'
