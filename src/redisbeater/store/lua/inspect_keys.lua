-- Look at the types of the keys that beat keeps beside the entries, or of deleted entries.
--
-- KEYS[1..] keys  the keys, each of any type
-- Returns for each its type, 'none' when there is nothing
local types = {}
for i = 1, #KEYS do types[i] = redis.call('TYPE', KEYS[i]).ok end
return types
