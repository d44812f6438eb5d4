-- Return where entries come from.
--
-- What a key of another type holds is somebody else's, and so is a hash that is not of this schedule. The reply is one
-- text, because a client unpacks a thousand small ones slowly.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2..] entries  hashes: the entries
-- Returns JSON: for each entry its origin, '' for a dynamic one, the type of what is somebody else's, or false: there
--      is none
local schedule = KEYS[1]

local function origin(entry)
  local kind = redis.call('TYPE', entry).ok
  if kind ~= 'hash' or not is_own(schedule, entry) then return kind ~= 'none' and kind end
  return redis.call('HEXISTS', entry, 'definition') == 1 and (redis.call('HGET', entry, 'origin') or '')
end

local origins = {}
for i = 2, #KEYS do origins[#origins + 1] = origin(KEYS[i]) end
return cjson.encode(origins)
