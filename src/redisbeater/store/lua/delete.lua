-- Delete entries and everything that is kept about them.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] broken     hash: entry name -> why it is quarantined
-- KEYS[3] statics    set: names of the static entries
-- KEYS[4] failing    sorted set: entry key -> the fire time that it owes
-- KEYS[5..] entries  hashes: the entries
-- ARGV[1] channel    text: where beats listen for changes
-- ARGV[2] message    text: what is published there, once for all entries
-- ARGV[3..] pairs    for each entry its name, and an origin: remove it only if it still has that one; '' whatever it has
-- Returns for each entry 'DELETED', 'ABSENT': there was none, or 'KEPT': it has another origin by now
local schedule, broken, statics, failing = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local channel, message = ARGV[1], ARGV[2]

local function delete(entry, name, origin)
  local is_stored = redis.call('TYPE', entry).ok ~= 'none'
  if is_stored and origin ~= '' and try('HGET', entry, 'origin') ~= origin then return 'KEPT' end
  local existed = redis.call('DEL', entry)
  redis.call('ZREM', schedule, entry)
  try('HDEL', broken, name)
  try('SREM', statics, name)
  try('ZREM', failing, entry)
  return existed == 1 and 'DELETED' or 'ABSENT'
end

local outcomes = {}
for i = 5, #KEYS do
  local first = 3 + (i - 5) * 2
  outcomes[#outcomes + 1] = delete(KEYS[i], unpack(ARGV, first, first + 1))
end
redis.call('PUBLISH', channel, message)
return outcomes
