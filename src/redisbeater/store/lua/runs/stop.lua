-- Ask to stop a run. One that waits for beat is revoked at once; one that has ended is left as it is. When it is
-- executed twice, because its reply was lost, the second time writes nothing and answers as the first.
--
-- KEYS[1] run_key    hash: the run
-- KEYS[2] answer     string: what this call has answered, kept for a minute
-- ARGV[1] prefix     text: what every key of the schedule begins with
-- ARGV[2] limit      number of runs that the history of an entry keeps
-- ARGV[3] retention  milliseconds for which they are kept
-- ARGV[4] fields     JSON: names and values to store: who asks, and why
-- ARGV[5] lines      number of lines that the log of an entry keeps
-- ARGV[6] line       text: what the log of its entry says
-- Returns 'ASKED', 'REVOKED': it waited, and is revoked, 'ENDED': it had ended, or 'ABSENT': there is none
local run_key, answer = KEYS[1], KEYS[2]
local prefix, limit, retention, fields, lines, line = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local function stop()
  local run = read_run(run_key)
  if not run then return 'ABSENT' end
  local waits = run.state == 'BUFFERED' or run.state == 'LOST' and try('ZSCORE', prefix .. ':resend', run_key)
  if FINAL[run.state] and not waits then return 'ENDED' end
  redis.call('HSET', run_key, 'stop', '1', unpack(cjson.decode(fields)))
  if waits then revoke_waiting(prefix, limit, retention, run) end
  log_run(prefix, run.name, lines, line, retention)
  publish_event(prefix, run.name)
  return waits and 'REVOKED' or 'ASKED'
end

return once(answer, stop)
