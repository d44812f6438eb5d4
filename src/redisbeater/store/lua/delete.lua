-- Remove an entry and everything that is kept about it.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] broken     hash: entry name -> why it was set aside
-- KEYS[3] statics    set: names of the static entries
-- KEYS[4] entry      hash: the entry
-- ARGV[1] name       text: its name
-- ARGV[2] origin     text: remove it only if it still has this origin; '' whatever it has
-- ARGV[3] channel    text: where beats listen for changes
-- Returns 'DELETED', 'ABSENT': there was none, or 'KEPT': it has another origin by now
local schedule, broken, statics, entry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local name, origin, channel = ARGV[1], ARGV[2], ARGV[3]

if origin ~= '' and redis.call('HGET', entry, 'origin') ~= origin then return 'KEPT' end
local existed = redis.call('DEL', entry)
redis.call('ZREM', schedule, entry)
redis.call('HDEL', broken, name)
redis.call('SREM', statics, name)
redis.call('PUBLISH', channel, name)
return existed == 1 and 'DELETED' or 'ABSENT'
