-- Return where entries come from.
--
-- What a key of another type holds is somebody else's. The reply is one text, because a client unpacks a thousand small
-- ones slowly.
--
-- KEYS[1..] entries  hashes: the entries
-- Returns JSON: for each entry its origin, '' for a dynamic one, the type of what is somebody else's, or false: there is
--      none
local function origin(entry)
  local kind = redis.call('TYPE', entry).ok
  if kind ~= 'hash' then return kind ~= 'none' and kind end
  return redis.call('HEXISTS', entry, 'definition') == 1 and (redis.call('HGET', entry, 'origin') or '')
end

local origins = {}
for i = 1, #KEYS do origins[#origins + 1] = origin(KEYS[i]) end
return cjson.encode(origins)
