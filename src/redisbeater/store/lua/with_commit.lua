-- How a commit puts messages into the broker, where that is this server. It stands in front of commit.lua.

local now = server_time()

-- Ask for what follows a message: whatever is refused must be refused before the first one is put in, and before
-- anything is written where the memory is full.
local function need_room_and_rights(schedule, key)
  redis.call('ZADD', schedule, 'XX', 0, '')
  redis.call('DEL', key)
  redis.call('HSET', key, '', '')
  redis.call('DEL', key)
end

-- Return the answer of a function that is called in the database of the broker, or the error if that is closed to us.
local function in_broker(broker, act, ...)
  if broker.there == broker.here then return act(...) end
  local selected = redis.pcall('SELECT', broker.there)
  if selected.err then return selected end
  local answer, more = act(...)
  redis.call('SELECT', broker.here)
  return answer, more
end

-- Return why messages cannot be put into the broker: an error, or an empty text if it is another server; nil: they can.
local function why_apart(broker, proof)
  local found = in_broker(broker, redis.pcall, 'EXISTS', proof)
  if found == 1 then return nil end
  return type(found) == 'table' and found.err or ''
end

-- Return the place behind the arguments of commands that are as long as these numbers in a text say.
local function behind(place, lengths)
  for length in string.gmatch(lengths, '%d+') do
    place = place + length
  end
  return place
end

-- Execute commands, the arguments of which begin at a place, with lengths as above. Return how many came through, and
-- why the next one did not: what was put in cannot be taken back.
local function push(place, lengths)
  local done = 0
  for length in string.gmatch(lengths, '%d+') do
    local reply = redis.pcall(unpack(ARGV, place, place + length - 1))
    if type(reply) == 'table' and reply.err then return done, reply.err end
    done, place = done + 1, place + length
  end
  return done
end

-- Put messages into one list, each the last of three arguments that begin at a place. Return why none is there; nil:
-- all are.
local function push_alike(places)
  local arguments = {}
  for i, place in ipairs(places) do arguments[i] = ARGV[place + 2] end
  local reply = redis.pcall(ARGV[places[1]], ARGV[places[1] + 1], unpack(arguments))
  return type(reply) == 'table' and reply.err or nil
end

-- Put the messages of an entry or a run into the broker, if there are any. Return why none of them is there; nil: they
-- are; where one is not, the second answer is how many commands came through before it.
local function put(broker, place, lengths)
  if not place then return nil end
  if broker.why_apart then return {unproved = true} end
  local done, problem = in_broker(broker, push, place, lengths)
  if type(done) == 'table' then done, problem = 0, done.err end
  if problem and done == 0 then return {rejected = problem} end
  return nil, problem and done
end

-- Return why a function raised; nil: it did not.
local function problem_in(act, ...)
  local is_done, problem = pcall(act, ...)
  return not is_done and error_of(problem) or nil
end

-- Return what was refused so far, and forget it.
local function take_refused()
  local found = refused
  refused = nil
  return found
end

-- Store that the runs of an entry before a fire time are sent. Return what it is claimed by from now on: no two calls
-- give it the same, so that one that is repeated is known by that.
local function keep_claim(claim_id, key, fire_time)
  local claim = claim_id .. ' ' .. fire_time .. ' ' .. digest(read(key, 'definition', 'meta', 'recorded_run'))
  redis.call('HSET', key, 'claim', claim, 'fire_time', fire_time)
  redis.call('HDEL', key, 'is_due_now')
  return claim
end

-- Tell whether a commit of this claim has kept it.
local function is_kept_by(claim_id, stored)
  return string.sub(stored.claim or '', 1, #claim_id + 1) == claim_id .. ' '
end
