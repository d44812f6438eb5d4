-- Cancel delays: delete them, each only where its message is still the one that was seen. When it is executed twice,
-- because its reply was lost, the second time deletes nothing and answers as the first.
--
-- KEYS[1] delays     sorted set: task id -> UNIX seconds when beat is to send its message
-- KEYS[2] messages   hash: task id -> JSON of its message
-- KEYS[3] failing    hash: task id -> why its message cannot be sent
-- KEYS[4] answer     string: what this call has answered, kept for a minute; a worker, which asks once, passes none
-- ARGV[1..] pairs    the id of a delay, and what its message must be; '': anything
-- Returns for each what its message was, '' where it was not deleted
local delays, messages, failing, answer = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local given = given_answer(answer)
if given then return given end
local found = {}
for i = 1, #ARGV, 2 do
  local id, seen = ARGV[i], ARGV[i + 1]
  local message = redis.call('HGET', messages, id)
  local is_it = message and (seen == '' or seen == message)
  if is_it then
    redis.call('ZREM', delays, id)
    redis.call('HDEL', failing, id)
    redis.call('HDEL', messages, id)
  end
  found[#found + 1] = is_it and message or ''
end
return answer_once(answer, found)
