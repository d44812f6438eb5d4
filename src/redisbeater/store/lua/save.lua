-- Create or change an entry, if it still is what the change was made on: definition, meta, fire time and claim.
--
-- An entry that is claimed at this moment keeps its claim, so that its run is recorded; a new score then stands, and
-- without one the commit sets the next.
--
-- KEYS[1] schedule    sorted set: entry key -> UNIX seconds
-- KEYS[2] broken      hash: entry name -> why it was set aside
-- KEYS[3] statics     set: names of the static entries
-- KEYS[4] entry       hash: the entry
-- ARGV[1] name        text: its name
-- ARGV[2] expected    text: SHA-1 of what was read: definition, newline, meta, each '' where there was none
-- ARGV[3] planned     text: the fire time that was read, '' where there was none
-- ARGV[4] claim_id    text: the claim that was read, '' where there was none
-- ARGV[5] definition  text: the new one
-- ARGV[6] meta        text: the new one; '' keeps what is stored
-- ARGV[7] score       text: the new one; '' keeps what is stored
-- ARGV[8] anchor      text: the last run, in UNIX seconds, that the score counts from; '' keeps what is stored
-- ARGV[9] origin      text: for a static entry, its application and what its code says; '' keeps what is stored
-- ARGV[10] channel    text: where beats listen for changes
-- Returns 'SAVED', or 'CONFLICT': it was changed meanwhile; nothing was written
local schedule, broken, statics, entry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local name, expected, planned, claim_id = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local definition, meta, score, anchor, origin, channel = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]

local stored = redis.call('HMGET', entry, 'definition', 'meta', 'claim_id', 'fire_time', 'look_at')
if redis.sha1hex((stored[1] or '') .. '\n' .. (stored[2] or '')) ~= expected then return 'CONFLICT' end
if (stored[3] or '') ~= claim_id then return 'CONFLICT' end
local current = redis.call('ZSCORE', schedule, entry)
if current and stored[4] and tonumber(stored[5]) == tonumber(current) then current = stored[4] end
if (current or '') ~= planned then return 'CONFLICT' end
redis.call('HSET', entry, 'definition', definition)
if meta ~= '' then redis.call('HSET', entry, 'meta', meta) end
if anchor ~= '' then redis.call('HSET', entry, 'anchor', anchor) end
if origin ~= '' then
  redis.call('HSET', entry, 'origin', origin)
  redis.call('SADD', statics, name)
end
if score ~= '' then
  redis.call('ZADD', schedule, score, entry)
  redis.call('HDEL', entry, 'fire_time', 'look_at', 'last_error')
end
redis.call('HDEL', broken, name)
redis.call('PUBLISH', channel, name)
return 'SAVED'
