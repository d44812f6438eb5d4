-- Record the zone by which entries that have none of their own are planned, unless another one was recorded within the
-- last hour. The zone before is kept without a time to live until their fire times are planned again, and for an hour
-- then.
--
-- KEYS[1] zone     string: the zone of those entries
-- KEYS[2] before   string: the zone before it
-- ARGV[1] wanted   text: the zone of this beat's application
-- Returns {word, zone, before}: 'ADOPTED', the zone is the wanted one, and no fire time depends on another; 'CHANGED',
--      it is since now, and fire times are to be planned again; 'UNFINISHED', a beat has ended before they all were,
--      'KEPT', the zone has changed within the last hour, or, with '' for the zone before, its key holds another type,
--      so that no change can be recorded, or 'FOREIGN', the key of the zone holds another type
local zone, before = KEYS[1], KEYS[2]
local wanted = ARGV[1]

local kind = redis.call('TYPE', zone).ok
if kind ~= 'none' and kind ~= 'string' then return {'FOREIGN', wanted, ''} end
local stored, previous = text_at(zone), text_at(before)
if not stored then
  redis.call('SET', zone, wanted)
  return {'ADOPTED', wanted, ''}
end
if previous and redis.call('PTTL', before) == -1 then return {'UNFINISHED', stored, previous} end
if stored == wanted then return {'ADOPTED', stored, ''} end
if try('GET', before) == nil then return {'KEPT', stored, ''} end
if previous then return {'KEPT', stored, previous} end
redis.call('SET', before, stored)
redis.call('SET', zone, wanted)
return {'CHANGED', wanted, stored}
