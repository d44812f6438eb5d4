-- Keep a task's message until its time: store it, in place of an earlier one of that id.
--
-- A worker keeps one only where beat sends to the broker that it comes from, and where it is not due so soon that beat
-- may have sent it just now: by the server's clock, because a worker whose clock is behind would keep that one again.
-- All rights and the memory are asked for first, so that nothing is stored where a part of it is refused. When it is
-- executed twice, because its reply was lost, the second time stores nothing: the delay may have left meanwhile.
--
-- KEYS[1] delays     sorted set: task id -> UNIX seconds when beat is to send its message
-- KEYS[2] messages   hash: task id -> JSON of its message
-- KEYS[3] sender     string with a TTL: where the beat sends that leads
-- KEYS[4] failing    hash: task id -> why its message cannot be sent
-- KEYS[5] answer     string: that this call has stored it, kept for a minute; a worker, which asks once, passes none
-- ARGV[1] id         text: the task id
-- ARGV[2] eta        UNIX seconds
-- ARGV[3] text       JSON of the message
-- ARGV[4] broker     text: where the message comes from; '': from any broker, or none
-- ARGV[5] near       seconds: what is due sooner is not kept; -1: it is
-- ARGV[6] seen       text: what is stored must be this; '': anything, or nothing
-- ARGV[7] channel    text: where a change is published
-- ARGV[8] word       text: what is published where this delay comes before all others
-- Returns 'KEPT', or why it is not kept: 'NO_BEAT': no beat sends delays, 'NEAR', 'CHANGED': it is not as seen, or
--      where beat sends instead
local delays, messages, sender, failing, answer = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, eta, text, broker, near, seen = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local channel, word = ARGV[7], ARGV[8]

local given = given_answer(answer)
if given then return given end
local other = broker ~= '' and try('GET', sender)
if broker ~= '' and not other then return 'NO_BEAT' end
if other and other ~= broker then return other end
if tonumber(near) >= 0 and tonumber(eta) <= server_time() + near then return 'NEAR' end
if seen ~= '' and redis.call('HGET', messages, id) ~= seen then return 'CHANGED' end

redis.call('ZADD', delays, 'XX', 0, '')
redis.call('HDEL', failing, id)
local head = redis.call('ZRANGEBYSCORE', delays, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
if not head or tonumber(eta) < tonumber(head) then redis.call('PUBLISH', channel, word) end
redis.call('HSET', messages, id, text)
redis.call('ZADD', delays, eta, id)
return answer_once(answer, 'KEPT')
