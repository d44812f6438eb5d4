-- Read entries and the clock at one instant.
--
-- The fire time of an entry that is claimed or waits for another try stands beside its score, which then only says
-- when beat looks again; the score returned is the fire time. A key of another type is no entry.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2..] entries  hashes: the entries
-- Returns {now, {definition or '', meta or '', score or '', origin or '', last error or ''}, ...}
local schedule = KEYS[1]

local function load(entry)
  local score = redis.call('ZSCORE', schedule, entry)
  local fields = redis.pcall('HMGET', entry, 'definition', 'meta', 'origin', 'last_error', 'claim_fire_time', 'claim_until')
  if fields.err then fields = {} end
  if score and fields[5] and tonumber(fields[6]) == tonumber(score) then score = fields[5] end
  return {fields[1] or '', fields[2] or '', score or '', fields[3] or '', fields[4] or ''}
end

local time = redis.call('TIME')
local reply = {string.format('%d.%06d', time[1], time[2])}
for i = 2, #KEYS do reply[#reply + 1] = load(KEYS[i]) end
return reply
