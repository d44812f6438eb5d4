-- Let the lease of an execution that died end soon: the broker may give its message out again until then.
--
-- Where Redis was away until the execution died, its start could not be written. It is then recorded as started first:
-- its message is gone, and a run that counts as sent would wait for a start that never comes. A second execution of
-- this script does not make the lease longer. What the execution itself says of its end does not replace what another
-- process has said of it. Whether the broker gives the message out again is known here for certain, and replaces what
-- was stored with the start.
--
-- KEYS[1] run_key    hash: the run
-- ARGV[1] prefix     text: what every key of the schedule begins with
-- ARGV[2] holder     text: the token of the execution, or what the tokens of its process begin with
-- ARGV[3] seconds    until its lease ends
-- ARGV[4] error_text text: why it died; '': not known
-- ARGV[5] attempt    number: which attempt it is
-- ARGV[6] fields     JSON: names and values to store with its start, as start takes them
-- Returns 'DROPPED', or 'LATE': it does not hold the run
local run_key = KEYS[1]
local prefix, holder, seconds, error_text, attempt, fields = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local stored = cjson.decode(fields)
local is_redelivered = false
for i = 1, #stored, 2 do
  if stored[i] == 'acks_late' then is_redelivered = true end
end

local function start(run)
  local now = server_time()
  local terms = {'state', 'STARTED', 'holder', holder, 'started_at', now, unpack(stored)}
  aside(try, 'HDEL', run_key, 'finished_at', 'error', 'taken', 'worker', 'pid')
  redis.call('HSET', run_key, 'starts', run.starts + 1, unpack(terms))
  aside(forget_waiting, prefix, run)
  run.state, run.holder = 'STARTED', holder
end

local run = read_run(run_key)
if run and run.state == 'SENT' and run.attempt == tonumber(attempt) then start(run) end
if not run or run.state ~= 'STARTED' or string.sub(run.holder or '', 1, #holder) ~= holder then return 'LATE' end
local lease = try('ZSCORE', prefix .. ':active', run_key)
local ends = server_time(seconds)
if not lease or tonumber(ends) < tonumber(lease) then try('ZADD', prefix .. ':active', ends, run_key) end
if not is_redelivered then aside(try, 'HDEL', run_key, 'acks_late') end
local set = run.holder == holder and 'HSETNX' or 'HSET'
if error_text ~= '' then aside(try, set, run_key, 'error', error_text) end
return told('DROPPED')
