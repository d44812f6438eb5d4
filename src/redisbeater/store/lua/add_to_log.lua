-- Add a line to a log.
--
-- KEYS[1] log       list: lines, the newest first
-- KEYS[2] entry     hash: the entry that it is about; missing: it is the log of the schedule
-- ARGV[1] lines     number of lines that the log keeps
-- ARGV[2] text      text: a word, and JSON
-- ARGV[3] seconds   how long ago it began; 0: it is an instant
-- ARGV[4] keep      milliseconds for which the log of an entry is kept that was deleted
-- Returns 'ADDED'
local log, entry = KEYS[1], KEYS[2]
local lines, text, seconds, keep = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local now = server_time()
add_to_log(log, lines, text, 1, string.format('%.6f', tonumber(now) - tonumber(seconds)), now)
if entry and redis.call('TYPE', entry).ok == 'none' then redis.call('PEXPIRE', log, keep) end
return 'ADDED'
