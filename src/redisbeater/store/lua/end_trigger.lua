-- Store what became of the send of a trigger whose caller has chosen the id, unless another call sends it meanwhile.
--
-- KEYS[1] trigger    hash: what was triggered with the id
-- ARGV[1] token      text: the call that has sent it
-- ARGV[2] outcome    text: 'SENT', 'UNSENT': the next call sends it, or 'REFUSED': the id is free again
-- ARGV[3] keep       milliseconds for which the id of what was sent is known
-- Returns 'ENDED', or 'LATE': another call sends it, or the id is not known any more
local trigger = KEYS[1]
local token, outcome, keep = ARGV[1], ARGV[2], ARGV[3]

if read(trigger, 'sender').sender ~= token then return 'LATE' end
if outcome == 'REFUSED' then
  redis.call('DEL', trigger)
elseif outcome == 'SENT' then
  redis.call('HDEL', trigger, 'sender', 'ends')
  redis.call('PEXPIRE', trigger, keep)
else
  redis.call('HDEL', trigger, 'ends')
end
return 'ENDED'
