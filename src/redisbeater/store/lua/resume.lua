-- End a pause of the schedule, and wake beats.
--
-- KEYS[1] pause     string: JSON of who paused the schedule, when and why
-- KEYS[2] log       list: what happened to the schedule, the newest line first
-- ARGV[1] line      text: a word and JSON, for the log
-- ARGV[2] lines     number of lines that the log keeps
-- ARGV[3] channel   text: where beats listen for changes
-- ARGV[4] message   text: that the schedule is paused, or not any more
-- Returns 'RESUMED', or 'RUNNING': it was not paused
local pause, log = KEYS[1], KEYS[2]
local line, lines, channel, message = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if not text_at(pause) then return 'RUNNING' end
redis.call('DEL', pause)
add_to_log(log, lines, line)
redis.call('PUBLISH', channel, message)
return 'RESUMED'
