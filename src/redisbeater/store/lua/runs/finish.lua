-- Record the end of an execution of a run: a final state, or RETRY, which is none.
--
-- It is recorded and counted once for each holder. The end of an older attempt counts as long as the next attempt has
-- not started, if it is a SUCCESS; any other end only as long as beat has not taken the next attempt. Where one process
-- reports for another, the holder is what the tokens of that other process begin with; where no execution has begun, it
-- is empty. If a copy of the message of a lost run expires, the run has not ended. A RETRY is ignored once the next try
-- has begun: it was recorded before, or comes too late.
--
-- KEYS[1] run_key    hash: the run
-- ARGV[1] prefix     text: what every key of the schedule begins with
-- ARGV[2] limit      number of runs that the history of an entry keeps
-- ARGV[3] retention  milliseconds for which they are kept
-- ARGV[4] holder     text: the token of the execution, what it begins with, or ''
-- ARGV[5] attempt    number: which attempt it is
-- ARGV[6] state      text: the new state
-- ARGV[7] wait       seconds that it may wait for its start
-- ARGV[8] retry_in   seconds until its next try may start; '': none
-- ARGV[9] seconds    how long it took; '': not known
-- ARGV[10] fields    JSON: names and values to store with it: error, result, note
-- ARGV[11] first     JSON: names and values for a run of which nothing is stored: name, task, fire_time, worker and pid
--                    as start takes them. With a name that no entry can have, nothing is recorded
-- ARGV[12] step      number: how often the run was published by itself before this execution
-- ARGV[13] traceback text: where the error was raised, packed; '': not known
-- Returns 'FINISHED', also when it was recorded before, or 'LATE': another execution has the run
local run_key = KEYS[1]
local prefix, limit, retention, holder, attempt, state = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local wait, retry_in, seconds, fields, first, step = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12]
local traceback = ARGV[13]

local function create()
  local terms, is_begun = cjson.decode(first), holder ~= ''
  local new = {
    attempt = attempt,
    started_at = seconds ~= '' and server_time(-seconds),
    starts = is_begun and 1,
    holder = is_begun and holder,
  }
  for field, text in pairs(new) do
    if text then append(terms, field, text) end
  end
  if not is_name(terms[2]) then return end
  if not try('HSET', run_key, 'state', is_begun and 'STARTED' or 'SENT', unpack(terms)) then return end
  aside(try, 'ZADD', prefix .. ':runs:' .. terms[2], 'NX', new.started_at or server_time(), run_key)
  return read_run(run_key)
end

-- Tell whether nothing of an execution is said by an end: its message was thrown away, which may be a copy.
local function is_unexecuted(end_state)
  return FINAL[end_state] and not REPORTED[end_state] and not REDELIVERED[end_state]
end

local function is_of_holder(run)
  return holder ~= '' and string.sub(run.holder or '', 1, #holder) == holder
end

local function refusal(run)
  local is_late_retry = state == 'RETRY' and tonumber(attempt) == run.attempt and tonumber(step) < run.step
  if is_late_retry then return 'FINISHED' end
  local has_ended = FINAL[run.state] and not REVISABLE[run.state]
  local is_copy = FINAL[run.state] and run.starts > 0 and is_unexecuted(state)
  local is_over = has_ended or is_copy
  local is_ours = is_of_holder(run)
  if run.state == state or is_over and is_ours then
    return (is_ours or holder == '') and 'FINISHED' or 'LATE'
  end
  local is_older = tonumber(attempt) < run.attempt and not can_return(prefix, run)
  local is_late = is_over or run.state == 'STARTED' and not is_ours or is_older and not is_success(state)
  return is_late and 'LATE'
end

local function finish(run)
  local texts = cjson.decode(fields)
  if tonumber(attempt) ~= run.attempt then append(texts, 'attempt', attempt) end
  if state == 'RETRY' then
    redis.call('HSET', run_key, 'state', state, unpack(texts))
    await_start(prefix, wait, run, server_time(retry_in ~= '' and retry_in or 0), true)
    aside(forget_waiting, prefix, run)
    if FINAL[run.state] then
      aside(list_active, prefix, run.name, run_key)
      aside(forget_end, prefix, run_key)
    end
    return publish_event(prefix, run.name)
  end
  if holder ~= '' and not is_of_holder(run) then append(texts, 'holder', holder) end -- it may say so again
  local now, started_at = tonumber(server_time()), instant(run.started_at)
  run.traceback = traceback ~= '' and traceback
  local ends = seconds ~= '' and started_at and started_at + seconds or now
  run.took = tonumber(seconds) or started_at and math.max(now - started_at, 0)
  run.finished_at = string.format('%.6f', math.min(ends, now))
  if ends > now + 1 then append(texts, 'started_at', server_time(-seconds)) end
  if tonumber(attempt) < run.attempt then aside(try, 'HSETNX', run_key, 'note', '2 executions') end
  end_run(prefix, limit, retention, run, state, FAILURES[state] and not run.counted, texts)
end

local run = read_run(run_key) or create()
local word = run and refusal(run)
if word == 'LATE' and holder ~= '' then
  aside(try, 'HSETNX', run_key, 'note', '2 executions')
elseif run and not word then
  finish(run)
end
return told(word or 'FINISHED')
