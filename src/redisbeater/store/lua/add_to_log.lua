-- Add a line to a log.
--
-- KEYS[1] log       list: lines, the newest first
-- ARGV[1] lines     number of lines that the log keeps
-- ARGV[2] text      text: a word, and JSON
-- ARGV[3] seconds   how long ago it began; 0: it is an instant
-- Returns 'ADDED'
local log = KEYS[1]
local lines, text, seconds = ARGV[1], ARGV[2], ARGV[3]

local now = server_time()
add_to_log(log, lines, text, 1, string.format('%.6f', tonumber(now) - tonumber(seconds)), now)
return 'ADDED'
