-- Record that a run is lost, or has expired, if its lease is still as it was read. That is final, unless beat is to
-- send the run again as the next attempt. When the script is executed twice, because its reply was lost, the second
-- time writes nothing and answers as the first. A run that has ended, and that its worker could not remove from the
-- active ones, is only removed.
--
-- KEYS[1] run_key    hash: the run
-- KEYS[2] active     sorted set: run key -> when its lease ends, or until when it may wait for its start
-- KEYS[3] answer     string: what this call has answered, kept for a minute
-- ARGV[1] prefix     text: what every key of the schedule begins with
-- ARGV[2] limit      number of runs that the history of an entry keeps
-- ARGV[3] retention  milliseconds for which they are kept
-- ARGV[4] seen       text: the score in active that was read; '': the run was reserved or taken, and cannot be sent
-- ARGV[5] state      text: LOST, or another end
-- ARGV[6] delay      seconds until it is sent again; '': it is final
-- ARGV[7] note       text: why; '' for nothing
-- ARGV[8] lines      number of lines that the log of an entry keeps
-- ARGV[9] line       text: what the log of its entry says; '' for nothing
-- Returns 'LOST', or 'ALIVE': its lease was renewed, or it is not active any more; then nothing was written
local run_key, active, answer = KEYS[1], KEYS[2], KEYS[3]
local prefix, limit, retention, seen, state, delay = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local note, lines, line = ARGV[7], ARGV[8], ARGV[9]

local function count_loss(run)
  if exists(prefix, run.name) then count(prefix .. run.name, count_of(state)) end
end

local function requeue(run, fields)
  try('ZADD', prefix .. ':resend', server_time(delay), run_key)
  redis.call('HSET', run_key, 'state', state, 'attempt', run.attempt + 1, 'finished_at', server_time(), unpack(fields))
  aside(try, 'ZREM', active, run_key)
  aside(forget_waiting, prefix, run)
  aside(try, 'SADD', prefix .. ':active:' .. run.name, run_key)
  aside(keep_waiting, prefix, run_key)
  aside(count_loss, run)
  aside(count_total, prefix, state, run.task)
  wake_beats(prefix)
  publish_event(prefix, run.name)
end

local function lose()
  local run = read_run(run_key)
  local score = try('ZSCORE', active, run_key)
  local is_as_read = seen ~= '' and score == seen or seen == '' and run and (run.state == 'SENT' or run.taken)
  if not run or not is_as_read then return 'ALIVE' end
  if seen ~= '' and FINAL[run.state] then
    try('ZREM', active, run_key)
    return 'ALIVE'
  end
  local is_failure = FAILURES[state] and seen ~= ''
  local fields = note ~= '' and {seen == '' and 'error' or 'note', note} or {}
  if delay ~= '' then
    requeue(run, fields)
  else
    if is_failure then append(fields, 'counted', '1') end
    end_run(prefix, limit, retention, run, state, is_failure, fields)
  end
  if line ~= '' then log_run(prefix, run.name, lines, line, retention) end
  return 'LOST'
end

return once(answer, lose)
