-- Set one claimed entry aside: dormant, and listed as broken with the reason.
--
-- When its definition was replaced meanwhile, the new one deserves a try: it comes up again at once instead, or when the
-- score says that was set meanwhile.
--
-- KEYS[1] schedule    sorted set: entry key -> UNIX seconds
-- KEYS[2] broken      hash: entry name -> why it was set aside
-- KEYS[3] entry       hash: the claimed entry
-- ARGV[1] claim_id    text: the claim under which it was read
-- ARGV[2] name        text: its name
-- ARGV[3] definition  text: SHA-1 of the definition that is broken
-- ARGV[4] report      text: why and since when, JSON
-- Returns 'QUARANTINED', 'EDITED': the definition was replaced, or 'FENCED': the claim is not ours any more
local schedule, broken, entry = KEYS[1], KEYS[2], KEYS[3]
local claim_id, name, definition, report = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local function words_of(text) return string.match(text or '', '^([^ *]+)(%*?) ([^ ]+) ?(.*)$') end

local fields = redis.pcall('HMGET', entry, 'fire_time', 'definition')
local fire_time, star, look_at, claim = words_of(fields[1])
if claim ~= claim_id then return 'FENCED' end
local current = redis.call('ZSCORE', schedule, entry)
local is_ours = current and tonumber(current) == tonumber(look_at)
redis.call('HDEL', entry, 'fire_time')
if redis.sha1hex(fields[2] or '') ~= definition then
  if is_ours then redis.call('ZADD', schedule, fire_time, entry) end
  if is_ours and star ~= '' then redis.call('HSET', entry, 'fire_time', fire_time .. '* ' .. fire_time) end
  return 'EDITED'
end
redis.call('ZADD', schedule, tonumber(fire_time) and '-' .. fire_time or '-1', entry)
redis.call('HSET', broken, name, report)
return 'QUARANTINED'
