-- Take delays that are due for a lease, oldest first. The score of each becomes the end of the lease, so that it is due
-- again by itself when nobody commits it.
--
-- That score is the fence: no two calls give the same, since what was taken is not due before it; and whoever stores
-- the delay anew gives it another one. Without a right that the commit needs nothing is taken, because a message that
-- has left would leave again.
--
-- KEYS[1] delays     sorted set: task id -> UNIX seconds when beat is to send its message
-- KEYS[2] messages   hash: task id -> JSON of its message
-- KEYS[3] failing    hash: task id -> why its message cannot be sent
-- KEYS[4] lock       string: token of the leader
-- ARGV[1] token      text: what the lock must hold; '': there is no lock
-- ARGV[2] lease      seconds
-- ARGV[3] limit      number of delays
-- ARGV[4] most       bytes of one message; a longer one is taken, but not returned
-- ARGV[5] enough     bytes of all messages: then no other one is taken
-- Returns {the end of the lease (text), the next score (text; '': there is none), then the id and the message of each
--      delay, '' for one that is too long}; a member without a message is removed. {'FENCED'}: another beat holds the
--      lock, or nobody does
local delays, messages, failing, lock = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, lease, limit, most, enough = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

if token ~= '' and text_at(lock) ~= token then return {'FENCED'} end
redis.call('ZSCORE', delays, '')
redis.call('ZREM', delays, '')
redis.call('HDEL', messages, '')
redis.call('HDEL', failing, '')

local ends, bytes = server_time(lease), 0
local reply = {ends, ''}

local function take(id, message)
  if not message then return redis.call('ZREM', delays, id) end
  redis.call('ZADD', delays, ends, id)
  if #message > tonumber(most) then message = '' end
  bytes = bytes + #message
  reply[#reply + 1], reply[#reply + 2] = id, message
end

for _, id in ipairs(redis.call('ZRANGEBYSCORE', delays, '-inf', server_time(), 'LIMIT', 0, limit)) do
  if bytes < tonumber(enough) then take(id, redis.call('HGET', messages, id)) end
end
reply[2] = redis.call('ZRANGEBYSCORE', delays, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] or ''
return reply
