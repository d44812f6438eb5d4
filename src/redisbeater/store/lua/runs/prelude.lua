-- Functions that the scripts of runs share. The loader puts them behind the other prelude, in front of scripts that read or
-- write runs. Keys are built from the prefix of the schedule and the name that is stored with the run: they share its slot.

-- Return a stored whole number; 0 where another program wrote something else.
local function whole(text)
  local digits = string.match(text or '', '^%d+$')
  return digits and #digits < 16 and tonumber(digits) or 0
end

-- Add to a field that counts. Where another program wrote no number, it is counted from 0. Return the count, nil: the key
-- holds another type.
local function count(key, field, number)
  local reply = redis.pcall('HINCRBY', key, field, number or 1)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if string.find(reply.err, 'WRONGTYPE', 1, true) then return nil end
  if not string.find(reply.err, 'not an integer') and not string.find(reply.err, 'overflow') then error('HINCRBY: ' .. reply.err) end
  redis.call('HSET', key, field, number or 1)
end

-- Tell whether fields are those of a run: another program may have written anything.
local function is_run(fields)
  local states = ' BUFFERED SENT STARTED RETRY SUCCESS FAILURE REVOKED EXPIRED LOST '
  return is_name(fields.name or '') and string.find(states, ' ' .. (fields.state or ' ') .. ' ', 1, true) ~= nil
end

-- Return the fields of a run by which scripts decide, and its key; nil where the key holds no run.
local function read_run(key)
  local run = read(key, 'name', 'task', 'state', 'attempt', 'step', 'holder', 'starts', 'started_at', 'sent_at', 'stop', 'alone', 'taken', 'expires')
  if not is_run(run) then return nil end
  run.key, run.attempt, run.step, run.starts = key, math.max(whole(run.attempt), 1), whole(run.step), whole(run.starts)
  return run
end

-- Tell whether a run is active: its lease has not ended, or beat is to send it. The second answer is whether it is listed
-- at all: the lease of one that is lost may have ended before beat has seen that.
local function is_active(prefix, key, now)
  local lease = try('ZSCORE', prefix .. ':active', key)
  if lease and tonumber(lease) > tonumber(now) then return true, true end
  local is_to_be_sent = try('ZSCORE', prefix .. ':resend', key)
  return is_to_be_sent and true, is_to_be_sent or lease
end

-- Tell whether a lost run is to be sent again and nobody has begun to: an execution that is alive may have it back.
local function can_return(prefix, run)
  return run.state == 'LOST' and not run.taken and try('ZSCORE', prefix .. ':resend', run.key) and true
end

-- Return the keys of active runs of an entry, at most so many, without one of them. What is not listed any more is removed.
local function active_of(prefix, name, most, except)
  local set, now, found, cursor, pages = prefix .. ':active:' .. name, server_time(), {}, '0', 0
  repeat
    local page = try('SSCAN', set, cursor, 'COUNT', 10) or {'0', {}}
    for _, key in ipairs(page[2]) do
      local active, listed = is_active(prefix, key, now)
      if not listed then redis.call('SREM', set, key) end
      if active and key ~= except and #found < most then found[#found + 1] = key end
    end
    cursor, pages = page[1], pages + 1
  until cursor == '0' or #found >= most or pages >= 100
  return found
end

-- Store until when a run may wait for its start, from now or from its ETA on, and list it as active.
local function await_start(prefix, wait, run, eta)
  local ends = string.format('%.6f', (eta and tonumber(eta) or tonumber(server_time())) + wait)
  if instant(run.expires) and tonumber(run.expires) < tonumber(ends) then ends = run.expires end
  try('ZADD', prefix .. ':active', ends, run.key)
  try('SADD', prefix .. ':active:' .. run.name, run.key)
  return ends
end

-- Store a run that was sent, or that is to wait. Of one that is stored, because its worker was quicker, only what is missing is
-- written. A run that was recorded before stays as it is.
local function record_run(prefix, wait, new, now)
  local entry, key = prefix .. new.name, prefix .. ':run:' .. new.id
  local state, sent_at = unpack(try('HMGET', key, 'state', 'sent_at') or {'FOREIGN', now})
  if state and (sent_at or new.state == 'BUFFERED') then return end
  new.key = key
  redis.call('HSET', key, unpack(new.fields))
  if state == 'SUCCESS' then redis.call('HDEL', key, 'payload') end
  if not state then redis.call('HSET', key, 'state', new.state, 'attempt', new.attempt) end
  if not state then try('ZADD', prefix .. ':runs:' .. new.name, now, key) end
  if new.state == 'BUFFERED' then return end
  redis.call('HSET', key, 'sent_at', now)
  if redis.call('EXISTS', entry) == 1 then count(entry, 'n.sent') end
  if not state then await_start(prefix, wait, new, new.eta) end
end

-- Store which run of an entry waits for the end of the one before it; one that has waited so far is deleted.
local function buffer(prefix, name, key)
  local entry = prefix .. name
  local before = read(entry, 'buffered').buffered
  local run = before and before ~= key and read_run(before)
  if run and run.state == 'BUFFERED' then
    redis.call('DEL', before)
    try('ZREM', prefix .. ':runs:' .. name, before)
  end
  if redis.call('EXISTS', entry) == 1 then redis.call('HSET', entry, 'buffered', key) end
end

-- Schedule the run of an entry that waits, once no other is active, or at once, and wake beats.
local function release_buffered(prefix, name, at_once)
  local key = read(prefix .. name, 'buffered').buffered
  if not key or not at_once and #active_of(prefix, name, 1, key) > 0 then return end
  redis.call('HDEL', prefix .. name, 'buffered')
  local run = read_run(key)
  if not run or run.state ~= 'BUFFERED' or not try('ZADD', prefix .. ':resend', server_time(), key) then return end
  try('SADD', prefix .. ':active:' .. name, key)
  redis.call('PUBLISH', prefix .. ':changes', ':runs')
end

-- Add the end of a run to the counts of its entry, unless the entry was deleted, and to the failures in a row.
local function count_end(prefix, run, state, is_failure)
  local entry = prefix .. run.name
  if redis.call('EXISTS', entry) == 0 then return end
  count(entry, 'n.' .. string.lower(state))
  if state == 'SUCCESS' then
    try('HDEL', entry, 'failures')
  elseif is_failure then
    count(entry, 'failures')
  end
end

-- Add to the totals of a task; of more than 1000 different fields the others are counted together.
local function count_total(prefix, what, task, number)
  local totals = prefix .. ':totals'
  local field = what .. ' ' .. string.sub(task or '', 1, 512)
  if count(totals, field, number) ~= (number or 1) or redis.call('HLEN', totals) <= 1000 then return end
  redis.call('HDEL', totals, field)
  count(totals, what .. ' other', number)
end

-- Add the seconds that a run took to the totals of its task, if they are known, by the smallest bound that is not less.
local function count_duration(prefix, run)
  local bound = '+Inf'
  if not run.took then return end
  for _, most in ipairs({86400, 14400, 3600, 900, 300, 60, 15, 5, 1, 0.5, 0.1}) do if run.took <= most then bound = most end end
  count_total(prefix, '<=' .. bound, run.task)
  count_total(prefix, 'ms', run.task, math.floor(run.took * 1000))
end

-- Remove the oldest runs of an entry that have ended, where there are more than so many, and keep the rest for so long.
local function cap_history(prefix, name, limit, retention)
  local index = prefix .. ':runs:' .. name
  local excess = (try('ZCARD', index) or 0) - limit
  if excess > 0 and excess > (try('SCARD', prefix .. ':active:' .. name) or 0) then
    local buffered = read(prefix .. name, 'buffered').buffered
    for _, key in ipairs(redis.call('ZRANGE', index, 0, math.min(excess, 100) - 1)) do
      local _, is_listed = is_active(prefix, key, 0)
      if not is_listed and key ~= buffered then redis.call('ZREM', index, key) end
      if not is_listed and key ~= buffered and string.find(key, prefix .. ':run:', 1, true) == 1 then redis.call('DEL', key) end
    end
  end
  redis.call('PEXPIRE', index, retention)
end

-- Return all fields of a run but its payload.
local function fields_of(key)
  return read(key, 'name', 'task', 'fire_time', 'kind', 'state', 'attempt', 'step', 'starts', 'holder', 'acks_late', 'sent_at', 'started_at',
    'seen_at', 'finished_at', 'worker', 'pid', 'error', 'result', 'note', 'by', 'restart_of', 'stop', 'alone', 'expires', 'taken')
end

-- Store a run without its payload again: Redis keeps a hash that has had a long field in three times the memory for ever.
local function drop_payload(key)
  local flat = {}
  for field, text in pairs(fields_of(key)) do flat[#flat + 1], flat[#flat + 2] = field, text end
  redis.call('DEL', key)
  redis.call('HSET', key, unpack(flat))
end

-- Store the end of a run, keep it for so long, and let the next one of its entry go.
local function end_run(prefix, limit, retention, run, state, is_failure)
  redis.call('HSET', run.key, 'state', state, 'finished_at', run.finished_at or server_time())
  redis.call('HDEL', run.key, 'taken')
  if state == 'SUCCESS' then drop_payload(run.key) end
  redis.call('PEXPIRE', run.key, retention)
  try('ZREM', prefix .. ':active', run.key)
  try('ZREM', prefix .. ':resend', run.key)
  try('SREM', prefix .. ':active:' .. run.name, run.key)
  cap_history(prefix, run.name, limit, retention)
  count_end(prefix, run, state, is_failure)
  count_total(prefix, state, run.task)
  count_duration(prefix, run)
  release_buffered(prefix, run.name)
  redis.call('PUBLISH', prefix .. ':events', cjson.encode({run.name}))
end

-- Return all fields of a run, with its payload where a limit of bytes for it is passed, and its lease_end and resend_at, as a
-- reply has them; nil where the key holds no run. A text that is longer than beat writes it is left out.
local function describe_run(prefix, key, most)
  local run = fields_of(key)
  if not is_run(run) then return nil end
  for field, text in pairs(run) do if #text > 4096 then run[field] = nil end end
  if most and redis.call('HSTRLEN', key, 'payload') <= tonumber(most) then run.payload = read(key, 'payload').payload end
  run.lease_end = try('ZSCORE', prefix .. ':active', key) or nil
  run.resend_at = try('ZSCORE', prefix .. ':resend', key) or nil
  return run
end

-- Store the end of a run that waited for beat to send it.
local function revoke_waiting(prefix, limit, retention, run)
  if read(prefix .. run.name, 'buffered').buffered == run.key then redis.call('HDEL', prefix .. run.name, 'buffered') end
  end_run(prefix, limit, retention, run, 'REVOKED')
end

-- Store that no buffered run of an entry is sent: neither the one that waits, nor one whose turn has come.
local function revoke_buffered(prefix, limit, retention, name)
  local waiting = active_of(prefix, name, 100)
  waiting[#waiting + 1] = read(prefix .. name, 'buffered').buffered
  for _, key in ipairs(waiting) do
    local run = read_run(key)
    if run and run.state == 'BUFFERED' then revoke_waiting(prefix, limit, retention, run) end
  end
end
