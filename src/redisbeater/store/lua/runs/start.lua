-- Record that an execution of a run begins, and give it the lease. It may be the first to know the run.
--
-- The holder, a token of this execution, fences what follows. The same token again is the same execution, whose reply
-- was lost. So is one whose process is already reported as dead, by what its token begins with; its short lease stays.
-- A message that an execution has published for the next try has a later step, and takes the lease over from that
-- execution; a message of an earlier step that the broker gives out again does not. Of most runs nothing is stored but
-- that they were sent: then little has to be written.
--
-- KEYS[1] run_key    hash: the run
-- ARGV[1] prefix     text: what every key of the schedule begins with
-- ARGV[2] name       text: the name of the entry, for a run of which nothing is stored
-- ARGV[3] attempt    number: which attempt the message is
-- ARGV[4] step       number: how often the run was published by itself before
-- ARGV[5] holder     text: a token of this execution
-- ARGV[6] lease      seconds
-- ARGV[7] is_again   text: '1': the broker has given the message out before
-- ARGV[8] refuses    text: '1': the task refuses to run beside another execution, or twice
-- ARGV[9] fields     JSON: names and values to store: task, acks_late, worker and pid unless the holder has them
-- ARGV[10] fire_time UNIX seconds; '': not known
-- Returns {word, seconds until the lease in question ends; '0' for a duplicate}. The words: 'STARTED', 'STOP': the
--      same, and somebody asked to stop the run, 'DUPLICATE': it has ended, or this is an older attempt, or 'RUNNING':
--      another execution has a live lease, or another run is in the way of a task that refuses; with the last two
--      nothing was recorded
local run_key = KEYS[1]
local prefix, name, attempt, step, holder, lease = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local is_again, refuses, fields, fire_time = ARGV[7], ARGV[8], ARGV[9], ARGV[10]

local now, run = server_time(), read_run(run_key)
local lease_end = string.format('%.6f', now + lease)
local entry_name = run and run.name or name
local known = run and run.state == 'STARTED' and is_again ~= '1' and run.holder or ''
local is_dead = known ~= '' and known ~= holder and string.sub(holder, 1, #known) == known
local is_repeated = run and (is_dead or run.holder == holder)
local is_first = run and run.state == 'SENT' and run.starts == 0

local function refusal()
  local attempts = can_return(prefix, run) and run.attempt - 1 or run.attempt
  if tonumber(attempt) < attempts or CLOSED[run.state] then return 'DUPLICATE' end
  if REDELIVERED[run.state] and is_again ~= '1' then return 'DUPLICATE' end
  local ends = run.state == 'STARTED' and tonumber(try('ZSCORE', prefix .. ':active', run_key) or 0) or 0
  local is_same = tonumber(step) == run.step and (is_again ~= '1' or refuses == '1')
  local is_held = ends > tonumber(now) and (tonumber(step) < run.step or is_same)
  local rest = is_held and ends - now or refuses == '1' and rest_of_another(prefix, run, now)
  if rest then return 'RUNNING', string.format('%.6f', math.min(rest, lease)) end
end

local function list()
  list_active(prefix, entry_name, run_key)
  try('ZADD', prefix .. ':runs:' .. entry_name, 'NX', now, run_key)
  if run and read(prefix .. entry_name, 'buffered').buffered == run_key then
    redis.call('HDEL', prefix .. entry_name, 'buffered')
  end
end

local function terms_of(texts)
  local seen = run or {attempt = 1, step = 0, starts = 0, fire_time = fire_time ~= '' and fire_time}
  local new = {
    name = not run and name,
    fire_time = not run and seen.fire_time,
    starts = seen.starts > 0 and seen.starts + 1,
  }
  new.step = tonumber(step) ~= seen.step and step
  new.attempt = tonumber(attempt) ~= seen.attempt and attempt
  for field, text in pairs(new) do
    if text then append(texts, field, text) end
  end
  return texts
end

local function start()
  if run and not is_first then
    aside(forget_end, prefix, run_key, 'seen_at', 'error', 'taken', 'acks_late', 'worker', 'pid')
  end
  if not is_name(entry_name) then return end
  local terms = terms_of(cjson.decode(fields))
  try('ZADD', prefix .. ':active', lease_end, run_key)
  if not try('HSET', run_key, 'state', 'STARTED', 'holder', holder, 'started_at', now, unpack(terms)) then
    try('ZREM', prefix .. ':active', run_key)
    return
  end
  if not is_first then aside(list) end
  aside(forget_waiting, prefix, run)
  aside(count, prefix .. ':totals', 'STARTED')
  publish_event(prefix, entry_name)
end

local word, seconds
if run and not is_repeated then word, seconds = refusal() end
if is_dead then
  redis.call('HSET', run_key, 'holder', holder)
elseif is_repeated and run.state == 'STARTED' then
  try('ZADD', prefix .. ':active', lease_end, run_key)
end
if not word and not is_repeated then
  start()
elseif word and refuses ~= '1' then
  aside(try, 'HSETNX', run_key, 'note', '2 executions')
end
return told({word or run and run.stop == '1' and 'STOP' or 'STARTED', seconds or (word and '0' or lease)})
