-- Pause the schedule, and wake beats. A pause that is on is replaced.
--
-- KEYS[1] pause     string: JSON of who paused the schedule, when and why; lives as long as the pause
-- KEYS[2] log       list: what happened to the schedule, the newest line first
-- ARGV[1] text      text: that JSON
-- ARGV[2] left      milliseconds until it ends by itself; 0: it is open
-- ARGV[3] line      text: a word and JSON, for the log
-- ARGV[4] lines     number of lines that the log keeps
-- ARGV[5] channel   text: where beats listen for changes
-- ARGV[6] message   text: that the schedule is paused, or not any more
-- Returns 'PAUSED'
local pause, log = KEYS[1], KEYS[2]
local text, left, line, lines, channel, message = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

redis.call('SET', pause, text)
if left ~= '0' then redis.call('PEXPIRE', pause, left) end
add_to_log(log, lines, line)
redis.call('PUBLISH', channel, message)
return 'PAUSED'
