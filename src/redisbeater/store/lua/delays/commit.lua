-- End the claim of delays: put their messages into the broker and delete them, or keep them for another try.
--
-- A delay whose score is not that of the claim any more stays as it is: its lease ran out, or it was kept anew or
-- cancelled. So nothing is done twice when this is repeated. What follows a message is asked for before the first one
-- is put in: the rights, and the memory. Messages that have left are deleted even where the memory is full.
--
-- KEYS[1] delays     sorted set: task id -> UNIX seconds when beat is to send its message
-- KEYS[2] messages   hash: task id -> JSON of its message
-- KEYS[3] failing    hash: task id -> JSON: error, since (UNIX seconds) and tries, while its message cannot be sent
-- ARGV[1] ends       UNIX seconds: the score of the claim
-- ARGV[2] outcomes   JSON: for each delay {id}: its message has left. With push, it is put in now: the lengths of the
--                    commands of its message, as with_commit.lua takes them. With error: why it could not be sent. With
--                    delay: it is due again in so many seconds
-- ARGV[3] proof      text: a key that the broker's connection has just stored; '': nothing is put into the broker
-- ARGV[4] there      number of the broker's database
-- ARGV[5] here       number of the database of the schedule
-- ARGV[6..] push     the commands that put messages into the broker, one argument after the other
-- Returns JSON of the delays that were not deleted, by their place, the first being '0': {gone: true}: it is not of
--      this claim any more, {unproved: true}: the broker is another server, {rejected: why the broker refused its
--      message}, {tries: how often it could not be sent}; of one that was deleted, {done: how many commands of its
--      message came through} where not all have
local delays, messages, failing = KEYS[1], KEYS[2], KEYS[3]
local ends, outcomes, proof, there, here = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- The longest time between two tries: an hour.
local LONGEST = 3600

local function failure_of(id)
  local is_json, stored = pcall(cjson.decode, try('HGET', failing, id) or '')
  local found = is_json and type(stored) == 'table' and stored or {}
  return tonumber(found.tries) or 0, tonumber(found.since) or tonumber(server_time())
end

local function fail(id, problem)
  local tries, since = failure_of(id)
  redis.call('HSET', failing, id, cjson.encode({error = problem, since = since, tries = tries + 1}))
  redis.call('ZADD', delays, server_time(math.min(2 ^ math.min(tries, 20), LONGEST)), id)
  return tries + 1
end

local function postpone(id, seconds) redis.call('ZADD', delays, server_time(seconds), id) end

local broker = {there = there, here = here}
broker.why_apart = proof == '' and '' or why_apart(broker, proof)

local function commit(new, place)
  if tonumber(redis.call('ZSCORE', delays, new.id) or '') ~= tonumber(ends) then return {gone = true} end
  if new.error then return {tries = aside(fail, new.id, new.error)} end
  if new.delay then return aside(postpone, new.id, new.delay) end
  local refusal, done = put(broker, new.push and place, new.push)
  if refusal then return refusal end
  redis.call('ZREM', delays, new.id)
  redis.call('HDEL', messages, new.id)
  redis.call('HDEL', failing, new.id)
  return done and {done = done}
end

if proof ~= '' then redis.call('ZADD', delays, 'XX', 0, '') end
redis.call('ZREM', delays, '')
redis.call('HDEL', messages, '')
redis.call('HDEL', failing, '')
local answers, place = {}, 6
for i, new in ipairs(cjson.decode(outcomes)) do
  answers[tostring(i - 1)] = commit(new, place) or nil
  place = behind(place, new.push or '')
end
return cjson.encode(answers)
