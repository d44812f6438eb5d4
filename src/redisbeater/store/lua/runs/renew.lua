-- Renew the leases of executions that still hold their runs. One whose run was found lost meanwhile gets it back,
-- unless beat has begun to send it again, or, where an entry has one run at a time, another has begun.
--
-- KEYS[1..] runs     hashes: the runs
-- ARGV[1] prefix     text: what every key of the schedule begins with
-- ARGV[2] lease      seconds
-- ARGV[3..] holders  for each run the token of the execution that is to hold it
-- Returns for each run 'RENEWED', or 'STOP': the same, and somebody asked to stop it, 'ENDED': its end is recorded,
--      'ABSENT': no start of it is stored, or 'LATE': another execution has it, or is to have it
local prefix, lease = ARGV[1], ARGV[2]

local active, now, lease_end = prefix .. ':active', server_time(), server_time(lease)

local function is_refused(run)
  local is_to_be_sent = run.state == 'LOST' and try('ZSCORE', prefix .. ':resend', run.key)
  if is_to_be_sent and not can_return(prefix, run) then return true end
  return rest_of_another(prefix, run, now) ~= nil
end

local function give_back(run)
  local attempt = can_return(prefix, run) and run.attempt - 1 or run.attempt
  redis.call('HSET', run.key, 'state', 'STARTED', 'attempt', attempt)
  list_active(prefix, run.name, run.key)
  aside(forget_end, prefix, run.key, 'note')
end

local function renew(key, holder)
  local run = read_run(key)
  if not run or run.state == 'SENT' and not run.holder then return 'ABSENT' end
  local is_over = run.state ~= 'STARTED' and run.state ~= 'LOST' and run.state ~= 'SENT'
  if run.holder == holder and is_over then return 'ENDED' end
  if run.holder ~= holder or run.state == 'SENT' or is_refused(run) then return 'LATE' end
  if run.state == 'LOST' then give_back(run) end
  try('ZADD', active, lease_end, key)
  aside(try, 'HSET', key, 'seen_at', now)
  return run.stop == '1' and 'STOP' or 'RENEWED'
end

local outcomes = {}
for i = 1, #KEYS do
  outcomes[i] = renew(KEYS[i], ARGV[i + 2])
end
return told(outcomes)
