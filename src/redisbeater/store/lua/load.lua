-- Read one entry and the clock at one instant.
--
-- The fire time of an entry that is claimed or waits for another try stands beside its score, which then only says
-- when beat looks again; the score returned is the fire time.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] entry      hash: the entry
-- Returns {now, definition or '', meta or '', score or '', origin or '', last error or ''}
local schedule, entry = KEYS[1], KEYS[2]

local time = redis.call('TIME')
local now = string.format('%d.%06d', time[1], time[2])
local score = redis.call('ZSCORE', schedule, entry)
local fields = redis.call('HMGET', entry, 'definition', 'meta', 'origin', 'last_error', 'claim_fire_time', 'claim_until')
if score and fields[5] and tonumber(fields[6]) == tonumber(score) then score = fields[5] end
return {now, fields[1] or '', fields[2] or '', score or '', fields[3] or '', fields[4] or ''}
