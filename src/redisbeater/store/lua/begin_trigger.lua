-- Let one call at a time send the run of a trigger whose caller has chosen the id. The same token again is the same
-- call, whose reply was lost. A call that died has not told its end: the next one sends the run once its lease is over.
--
-- KEYS[1] trigger    hash: what was triggered with the id
-- KEYS[2] run_key    hash: the run of that id
-- ARGV[1] asked      text: a digest of what is triggered
-- ARGV[2] words      text: the same for people, without secrets
-- ARGV[3] token      text: this call
-- ARGV[4] lease      seconds for which no other call sends it
-- ARGV[5] keep       milliseconds for which the id is known
-- Returns {word, text}, 'SEND': the caller is to send it, 'SENT': it was sent, 'WAIT': another call is sending it,
--      'OTHER': the id is that of something else, as the text says, or 'TAKEN': of a run of the entry that it names
local trigger, run_key = KEYS[1], KEYS[2]
local asked, words, token, lease, keep = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local known, run = read(trigger, 'asked', 'words', 'sender', 'ends'), read(run_key, 'name')

if not known.asked and run.name then return {'TAKEN', run.name} end
if known.asked and known.asked ~= asked then return {'OTHER', known.words or ''} end
if known.asked and not known.sender then return {'SENT', ''} end
if known.sender ~= token and (instant(known.ends) or 0) > tonumber(server_time()) then return {'WAIT', ''} end

redis.call('HSET', trigger, 'asked', asked, 'words', words, 'sender', token, 'ends', server_time(lease))
redis.call('PEXPIRE', trigger, keep)
return {'SEND', ''}
