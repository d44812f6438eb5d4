-- Read entries and the clock at one instant.
--
-- The fire time of an entry that is claimed, or waits for another try or for its jitter, stands beside its score, which
-- then only says when beat looks again; the score returned is the fire time. A key of another type is no entry.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2..] entries  hashes: the entries
-- Returns {now, {definition or '', meta or '', score or '', origin or '', last error or '', skipped or '',
--      claim id or ''}, ...}
local schedule = KEYS[1]

local function load(entry)
  local score = redis.call('ZSCORE', schedule, entry)
  local fields = {}
  if redis.call('TYPE', entry).ok == 'hash' then
    fields = redis.call('HMGET', entry, 'definition', 'meta', 'origin', 'last_error', 'skipped', 'fire_time', 'look_at', 'claim_id')
  end
  if score and fields[6] and tonumber(fields[7]) == tonumber(score) then score = fields[6] end
  return {fields[1] or '', fields[2] or '', score or '', fields[3] or '', fields[4] or '', fields[5] or '', fields[8] or ''}
end

local time = redis.call('TIME')
local reply = {string.format('%d.%06d', time[1], time[2])}
for i = 2, #KEYS do reply[#reply + 1] = load(KEYS[i]) end
return reply
