-- Add a line to a log.
--
-- KEYS[1] log       list: lines, the newest first
-- KEYS[2] entry     hash: the entry that it is about; missing: it is the log of the schedule
-- ARGV[1] lines     number of lines that the log keeps
-- ARGV[2] text      text: a word, and JSON
-- ARGV[3] seconds   how long ago it began; 0: it is an instant
-- ARGV[4] keep      milliseconds for which the log of an entry is kept that was deleted
-- ARGV[5] again     '1' if an earlier try, whose reply was lost, may have added the line; '0' otherwise
-- Returns 'ADDED'
local log, entry = KEYS[1], KEYS[2]
local lines, text, seconds, keep, again = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- An earlier try of the same call began less than ten seconds ago.
local function is_added(now)
  local last, _, _, newest = read_line(try('LINDEX', log, 0) or '')
  return newest == text and now - (tonumber(last) or 0) < 10
end

local now = server_time()
if again == '0' or not is_added(now) then
  add_to_log(log, lines, text, 1, string.format('%.6f', tonumber(now) - tonumber(seconds)), now)
end
if entry and redis.call('TYPE', entry).ok == 'none' then redis.call('PEXPIRE', log, keep) end
return 'ADDED'
