-- Delete entries and everything that is kept about them. When it is executed twice, because its reply was lost, the second
-- time deletes nothing and answers as the first.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] broken     hash: entry name -> why it is quarantined
-- KEYS[3] statics    set: names of the static entries
-- KEYS[4] failing    sorted set: entry key -> the fire time that it owes
-- KEYS[5] answer     string: what this call has answered, kept for a minute
-- KEYS[6..] entries  hashes: the entries
-- ARGV[1] channel    text: where beats listen for changes
-- ARGV[2] message    text: what is published there, once for all entries
-- ARGV[3] log        text: the key of a log, without the name of its entry
-- ARGV[4] lines      number of lines that a log keeps
-- ARGV[5] line       text: what the log says of it; '' for nothing
-- ARGV[6] kept       seconds that the log of a deleted entry is kept
-- ARGV[7..] pairs    for each entry its name, and an origin: remove it only if it still has that one; '' whatever it has
-- Returns for each entry 'DELETED', 'ABSENT': there was none, or 'KEPT': it has another origin by now
local schedule, broken, statics, failing, answer = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local channel, message, log, lines, line, kept = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local function delete(entry, name, origin)
  local is_stored = redis.call('TYPE', entry).ok ~= 'none'
  if is_stored and origin ~= '' and try('HGET', entry, 'origin') ~= origin then return 'KEPT' end
  local existed = redis.call('DEL', entry)
  redis.call('ZREM', schedule, entry)
  try('HDEL', broken, name)
  try('SREM', statics, name)
  try('ZREM', failing, entry)
  if existed == 1 and line ~= '' then add_to_log(log .. name, lines, line) end
  redis.call('EXPIRE', log .. name, kept)
  return existed == 1 and 'DELETED' or 'ABSENT'
end

local given = given_answer(answer)
if given then return given end
local outcomes = {}
for i = 6, #KEYS do
  local first = 7 + (i - 6) * 2
  outcomes[#outcomes + 1] = delete(KEYS[i], unpack(ARGV, first, first + 1))
end
redis.call('PUBLISH', channel, message)
return answer_once(answer, outcomes)
