-- Functions that the scripts of runs share. The loader puts them behind the other prelude, in front of scripts that
-- read or write runs. Keys are built from the prefix of the schedule and the name that is stored with the run: they
-- share its slot.

-- Add values to the end of a list; none of them is nil.
local function append(list, ...)
  for _, value in ipairs({...}) do
    list[#list + 1] = value
  end
end

-- Return a stored whole number; 0 where another program wrote something else.
local function whole(text)
  local digits = string.match(text or '', '^%d+$')
  return digits and #digits < 16 and tonumber(digits) or 0
end

-- Add to a field that counts, from 0 where another program wrote no number. Return the new count; nil: unknown, or the
-- key holds another type.
local function count(key, field, number)
  local reply = redis.pcall('HINCRBY', key, field, number or 1)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if string.find(reply.err, 'WRONGTYPE', 1, true) then return nil end
  local is_no_count = string.find(reply.err, 'not an integer') or string.find(reply.err, 'overflow')
  if not is_no_count then error('HINCRBY: ' .. reply.err) end
  try('HSET', key, field, number or 1)
end

-- Return the field of an entry that counts how many of its runs ended so.
local function count_of(state) return 'n.' .. string.lower(state) end

-- Tell whether a run has ended well: its execution has reported so, and it is no failure.
local function is_success(state) return REPORTED[state] and not FAILURES[state] end

-- Tell whether fields are those of a run: another program may have written anything.
local function is_run(fields)
  return is_name(fields.name or '') and FINAL[fields.state or ''] ~= nil
end

-- Tell whether there is an entry of a name. A run may outlive its entry: another schedule may have a hash at that key
-- by then, so that the entry must be a member as well; or another program a key of another type.
local function exists(prefix, name)
  local key = prefix .. name
  return (try('HLEN', key) or 0) > 0 and try('ZSCORE', prefix .. ':schedule', key) and true or false
end

-- Publish that something has become of the runs of an entry, for who follows them.
local function publish_event(prefix, name)
  aside(try, 'PUBLISH', prefix .. ':events', cjson.encode({name}))
end

-- Wake beats: a run is to be sent.
local function wake_beats(prefix) aside(try, 'PUBLISH', prefix .. ':changes', ':runs') end

-- Return what a call answers; behind it, what was refused of what it did aside.
local function told(answer) return refused and {'REDUCED', refused, answer} or answer end

-- Do what a call asks for, and return its answer: the same each time that the call is repeated because its reply was
-- lost. Where that cannot be stored, it is done each time, and the state of the run decides.
local function once(key, act)
  local given = aside(given_answer, key)
  if given then return given end
  local answer = act()
  aside(answer_once, key, answer)
  return told(answer)
end

-- Return the key of the run of an entry that waits for the end of the one before it; nil: there is none.
local function buffered_of(prefix, name)
  return exists(prefix, name) and read(prefix .. name, 'buffered').buffered or nil
end

-- Return the fields of a run by which scripts decide, and its key; nil where the key holds no run.
local function read_run(key)
  local run = read(
    key,
    'name', 'task', 'state', 'attempt', 'step', 'holder', 'starts', 'started_at', 'sent_at',
    'stop', 'alone', 'taken', 'expires', 'counted', 'kind'
  )
  if not is_run(run) then return nil end
  run.key = key
  run.attempt = math.max(whole(run.attempt), 1)
  run.step = whole(run.step)
  run.starts = run.starts and whole(run.starts) or run.started_at and 1 or 0
  return run
end

-- Return the key of what is needed to send a run again. It is no field of the run: Redis keeps a hash with one long
-- field in three times the memory.
local function payload_of(prefix, key) return prefix .. ':payload:' .. string.sub(key, #prefix + 6) end

-- Return the key of the traceback of a run that has failed.
local function traceback_of(prefix, key) return prefix .. ':traceback:' .. string.sub(key, #prefix + 6) end

-- Remove the record of a run; a member of its entry's history that another program wrote is left alone.
local function delete_run(prefix, key)
  if string.find(key, prefix .. ':run:', 1, true) ~= 1 then return end
  try('DEL', key, payload_of(prefix, key), traceback_of(prefix, key))
end

-- Remove what the end of a run has stored, and further fields; the run does not expire any more.
local function forget_end(prefix, key, ...)
  try('HDEL', key, 'finished_at', ...)
  try('DEL', traceback_of(prefix, key))
  try('ZREM', prefix .. ':failures', key)
  try('PERSIST', key)
  try('PERSIST', payload_of(prefix, key))
end

-- Store that a run which waits for beat expires in a year: if tracking is switched off meanwhile, nobody sends or
-- removes it.
local function keep_waiting(prefix, key)
  try('PEXPIRE', key, 366 * 86400000)
  try('PEXPIRE', payload_of(prefix, key), 366 * 86400000)
end

-- Tell whether a run is active: its lease has not ended, or beat is to send it. The second answer is whether it is
-- listed at all: the lease of one that is lost may have ended before beat has seen that.
local function is_active(prefix, key, now)
  local lease = try('ZSCORE', prefix .. ':active', key)
  if lease and tonumber(lease) > tonumber(now) then return true, true end
  local is_to_be_sent = try('ZSCORE', prefix .. ':resend', key)
  return is_to_be_sent and true, is_to_be_sent or lease
end

-- Tell whether a lost run is to be sent again and beat has not taken it yet: an execution that is alive may still have
-- it back.
local function can_return(prefix, run)
  return run.state == 'LOST' and not run.taken and try('ZSCORE', prefix .. ':resend', run.key) and true
end

-- Return the keys of active runs of an entry, at most `most`, without the one to except. Members that are not listed
-- any more are removed.
local function active_of(prefix, name, most, except)
  local set, now = prefix .. ':active:' .. name, server_time()
  local found, cursor, pages = {}, '0', 0
  if (try('SCARD', set) or 0) == 0 then return found end
  repeat
    local page = try('SSCAN', set, cursor, 'COUNT', 10) or {'0', {}}
    for _, key in ipairs(page[2]) do
      if #found >= most then return found end
      local active, listed = is_active(prefix, key, now)
      if not listed then aside(try, 'SREM', set, key) end
      if active and key ~= except and #found < most then found[#found + 1] = key end
    end
    cursor = page[1]
    pages = pages + 1
  until cursor == '0' or pages >= 100
  return found
end

-- Return for how many seconds another run is active, where an entry has one run at a time and the lease of this one is
-- over; nil: nothing is in its way. A run that is `taken` may start: beat has just sent it, and the commit that lists
-- it may follow.
local function rest_of_another(prefix, run, now)
  local function lease_of(key)
    return tonumber(try('ZSCORE', prefix .. ':active', key) or 0)
  end
  if run.alone ~= '1' or run.taken or lease_of(run.key) > tonumber(now) then return nil end
  local other = active_of(prefix, run.name, 1, run.key)[1]
  return other and math.max(lease_of(other) - now, 5)
end

-- Add a run that is executed again to the active ones of its entry; beat is not to send it.
local function list_active(prefix, name, key)
  try('ZREM', prefix .. ':resend', key)
  try('SADD', prefix .. ':active:' .. name, key)
  aside(try, 'PERSIST', prefix .. ':runs:' .. name)
end

-- Store until when a run may wait for its start, from a time on, and list it as active; unless it has begun before,
-- also as one that waits for a worker since then. Its history must outlive it.
local function await_start(prefix, wait, run, from, has_begun)
  local ends = string.format('%.6f', from + wait)
  if instant(run.expires) and tonumber(run.expires) < tonumber(ends) then ends = run.expires end
  try('ZADD', prefix .. ':active', ends, run.key)
  if not has_begun then try('ZADD', prefix .. ':waiting', from, run.key) end
  try('SADD', prefix .. ':active:' .. run.name, run.key)
  aside(try, 'PERSIST', prefix .. ':runs:' .. run.name)
end

-- Remove a run that was sent from those that wait for a worker: it has begun, or will not.
local function forget_waiting(prefix, run)
  if run and run.state == 'SENT' then try('ZREM', prefix .. ':waiting', run.key) end
end

-- Store what is needed to send a run again, for as long as the run is kept.
local function store_payload(prefix, key, payload, is_kept_for_a_time)
  local milliseconds = is_kept_for_a_time and try('PTTL', key) or 0
  if milliseconds > 0 then
    try('SET', payload_of(prefix, key), payload, 'PX', milliseconds)
  else
    try('SET', payload_of(prefix, key), payload)
  end
end

-- Return when a run was sent by its place in the history, where its worker has reported it before beat; else now.
local function send_time(history, key, state, now)
  local known = state and state ~= 'BUFFERED' and try('ZSCORE', history, key)
  return known and string.format('%.6f', known) or now
end

-- Store a run that was sent, or that is to wait. If its worker was quicker and has stored it, only what is missing is
-- written. Nothing is written if it was recorded before, nor if only the history has it: then somebody has deleted the
-- record, and the run may have ended. Return whether to count it as sent now.
local function record_run(prefix, wait, new, now)
  local key = prefix .. ':run:' .. new.id
  local history = prefix .. ':runs:' .. new.name
  local is_sent = new.state ~= 'BUFFERED'
  local state, sent_at = unpack(try('HMGET', key, 'state', 'sent_at') or {'FOREIGN', now})
  if state and (sent_at or not is_sent) then return false end
  if not state and try('ZADD', history, 'NX', now, key) == 0 then return is_sent end
  append(new.fields, 'name', new.name)
  if is_sent then append(new.fields, 'sent_at', send_time(history, key, state, now)) end
  if not state then append(new.fields, 'state', new.state or 'SENT') end
  if not state and new.attempt then append(new.fields, 'attempt', new.attempt) end
  new.key = key
  if is_sent and not state then await_start(prefix, wait, new, new.eta or now) end
  try('HSET', key, unpack(new.fields))
  if not is_success(state) then aside(store_payload, prefix, key, new.payload, state) end
  if not is_sent then aside(keep_waiting, prefix, key) end
  return is_sent
end

-- Delete the run that has waited so far: the new one follows the run that this one followed.
local function replace_buffered(prefix, name, before, key)
  local previous = read(before, 'previous_fire_time').previous_fire_time
  try(previous and 'HSET' or 'HDEL', key, 'previous_fire_time', previous or '')
  delete_run(prefix, before)
  try('ZREM', prefix .. ':runs:' .. name, before)
end

-- Store which run of an entry waits for the end of the one before it, in place of the run that has waited so far.
local function buffer(prefix, name, key)
  local before = buffered_of(prefix, name)
  local run = before and before ~= key and read_run(before)
  if exists(prefix, name) then try('HSET', prefix .. name, 'buffered', key) end
  if run and run.state == 'BUFFERED' then aside(replace_buffered, prefix, name, before, key) end
end

-- Schedule the waiting run of an entry if no other is active, or in any case `at_once`, and wake beats. `key`: that
-- run, if known.
local function release_buffered(prefix, name, at_once, key)
  key = key or buffered_of(prefix, name)
  if not key or not at_once and #active_of(prefix, name, 1, key) > 0 then return end
  local run = read_run(key)
  local waits = run and run.state == 'BUFFERED'
  if waits and not try('ZADD', prefix .. ':resend', server_time(), key) then return end
  if exists(prefix, name) then try('HDEL', prefix .. name, 'buffered') end
  if not waits then return end
  try('SADD', prefix .. ':active:' .. name, key)
  wake_beats(prefix)
end

-- Return the last ends of an entry with the end of a run, and list the entry as failed or unstable since the first end
-- that made it so; nil: this end says nothing, as that of a backfill, or of a run that somebody stopped. A report that
-- comes late, of a run that had ended before the last one, is put before that one. A run that was lost for good, and
-- has ended after all, counts as what it ended in.
local function add_end(prefix, run, state, stored)
  local letter = LETTERS[state]
  if not letter or run.kind == 'backfill' then return end
  local entry, at = prefix .. run.name, run.finished_at or server_time()
  local before, last_at = ends_of(stored)
  local was = problem_of(before)
  local earlier, later = string.match(run.counted and before or '', '^(.*)L(.-)$')
  if earlier then before, last_at = earlier .. later, later == '' and 0 or last_at end
  local ends = before .. letter
  if tonumber(at) < last_at and last_at <= tonumber(server_time()) then
    ends, at = string.sub(before, 1, -2) .. letter .. string.sub(before, -1), string.format('%.6f', last_at)
  end
  ends = string.sub(ends, -30)
  local is = problem_of(ends)
  if was and was ~= is then try('ZREM', prefix .. was, entry) end
  if is then try('ZADD', prefix .. is, 'NX', at, entry) end
  return ends .. ' ' .. at
end

-- Add the end of a run to what its entry knows of its runs: the count, the last ends, and how many failed in a row.
local function add_to_entry(prefix, run, state, is_failure, stored)
  local entry, ends = prefix .. run.name, add_end(prefix, run, state, stored.ends)
  local fields = {count_of(state), whole(stored[count_of(state)]) + 1}
  if ends then append(fields, 'ends', ends) end
  try('HSET', entry, unpack(fields))
  if is_success(state) and stored.failures then try('HDEL', entry, 'failures') end
  if is_failure then count(entry, 'failures') end
end

-- Add the end of a run to the count of its slot: its five minutes, or its hour. The key expires after the slots that
-- are kept, so that whoever begins a new one finds no older ones than twice that.
local function count_slot(key, run, state, seconds, kept)
  local slot, old = math.floor((run.finished_at or server_time()) / seconds), {}
  if count(key, slot .. ' ' .. state) ~= 1 then return end
  for passed = slot - 2 * kept, slot - kept do
    for each, is_end in pairs(FINAL) do
      if is_end then old[#old + 1] = passed .. ' ' .. each end
    end
  end
  try('HDEL', key, unpack(old))
  try('PEXPIRE', key, kept * seconds * 1000)
end

-- Add a run that has failed to the newest failures of the schedule. Of more than 1,000 a hundred are removed at once.
local function list_failure(prefix, run)
  local failures = prefix .. ':failures'
  if (try('ZADD', failures, run.finished_at or server_time(), run.key) or 0) == 0 then return end
  if try('ZCARD', failures) <= 1100 then return end
  try('ZREM', failures, unpack(try('ZRANGE', failures, 0, 99)))
end

-- Add to the totals of a task; beyond 1000 fields, new tasks are counted together as `other`.
local function count_total(prefix, what, task, number)
  local totals = prefix .. ':totals'
  local field = what .. ' ' .. string.sub(task or '', 1, 512)
  if count(totals, field, number) ~= (number or 1) or try('HLEN', totals) <= 1000 then return end
  try('HDEL', totals, field)
  count(totals, what .. ' other', number)
end

-- Add the end of a run to all counts, to the last ends of its entry unless that was deleted, and to the newest failures
-- if it is one; one that was lost, and has ended well after all, is none any more.
local function note_end(prefix, run, state, is_failure, stored)
  if stored then aside(add_to_entry, prefix, run, state, is_failure, stored) end
  aside(count_total, prefix, state, run.task)
  aside(count_slot, prefix .. ':minutes', run, state, 300, 73)
  aside(count_slot, prefix .. ':hours', run, state, 3600, 169)
  if LETTERS[state] and not is_success(state) then
    aside(list_failure, prefix, run)
  elseif run.counted then
    aside(try, 'ZREM', prefix .. ':failures', run.key)
  end
end

-- Add the seconds that a run took, if they are known, to the totals of its task, under the smallest bound that is not
-- exceeded.
local function count_duration(prefix, run)
  if not run.took then return end
  local bound = '+Inf'
  for _, most in ipairs({86400, 14400, 3600, 900, 300, 60, 15, 5, 1, 0.5, 0.1}) do
    if run.took <= most then bound = most end
  end
  count_total(prefix, '<=' .. bound, run.task)
  count_total(prefix, 'ms', run.task, math.floor(run.took * 1000))
end

-- Add a line about a run to the log of its entry. If the entry was deleted, its log expires after `retention`.
local function log_run(prefix, name, lines, line, retention)
  local log = prefix .. ':log:' .. name
  aside(add_to_log, log, lines, line)
  if not aside(exists, prefix, name) then aside(try, 'PEXPIRE', log, retention) end
end

-- Tell whether a run has ended so quickly that beat has not recorded yet that it was sent. If its record were removed,
-- the commit would store a new one, of a run that waits for a worker. Beat may have died before that commit, so it is
-- awaited for an hour.
local function awaits_commit(key)
  local run = read(key, 'sent_at', 'finished_at')
  return not run.sent_at and instant(run.finished_at) and run.finished_at + 3600 > tonumber(server_time())
end

-- Remove the oldest runs of a history that have ended, at most `most`. Runs that are active, that wait, or that beat
-- has not recorded as sent yet are passed over, a thousand at most.
local function remove_ended(prefix, index, most, buffered)
  local passed, page = 0, nil
  repeat
    page = try('ZRANGE', index, passed, passed + math.min(most, 100) - 1)
    for _, key in ipairs(page) do
      local _, is_listed = is_active(prefix, key, 0)
      local is_kept = is_listed or key == buffered or awaits_commit(key)
      if is_kept then
        passed = passed + 1
      else
        most = most - 1
        try('ZREM', index, key)
        delete_run(prefix, key)
      end
    end
  until most <= 0 or #page == 0 or passed >= 1000
end

-- Remove the oldest ended runs of an entry beyond `limit`, and let its history expire after `retention` once no run is
-- active or waits: a run that takes longer must still be listed at its end.
local function cap_history(prefix, name, limit, retention, buffered)
  local index, set = prefix .. ':runs:' .. name, prefix .. ':active:' .. name
  local active = try('SCARD', set) or 0
  if active > 0 and #active_of(prefix, name, 10) == 0 then
    active = try('SCARD', set) or 0
  end
  local excess = (try('ZCARD', index) or 0) - limit - active
  if excess > 0 then remove_ended(prefix, index, excess, buffered) end
  if active == 0 and not buffered then try('PEXPIRE', index, retention) end
end

-- Return all fields of a run but its payload.
local function fields_of(key)
  return read(
    key,
    'name', 'task', 'fire_time', 'kind', 'state', 'attempt', 'step', 'starts', 'holder', 'acks_late',
    'sent_at', 'started_at', 'seen_at', 'finished_at', 'worker', 'pid', 'error', 'result', 'note',
    'by', 'restart_of', 'version', 'queue', 'stop', 'alone', 'expires', 'taken',
    'previous_fire_time', 'coalesced', 'due_at', 'release'
  )
end

-- Let a run that has ended expire after `retention`. What is needed to send it again is deleted after a success, and
-- expires with any other run.
local function expire(prefix, retention, run, state)
  if run.taken then aside(try, 'HDEL', run.key, 'taken') end
  aside(try, 'PEXPIRE', run.key, retention)
  if is_success(state) then
    aside(try, 'DEL', payload_of(prefix, run.key))
  else
    aside(try, 'PEXPIRE', payload_of(prefix, run.key), retention)
  end
end

-- Remove a run that has ended from those that are active, wait for a worker, or are to be sent. Where that is refused,
-- beat does so when its lease is over.
local function unlist(prefix, run)
  aside(try, 'ZREM', prefix .. ':active', run.key)
  if run.state ~= 'STARTED' and run.state ~= 'SENT' then aside(try, 'ZREM', prefix .. ':resend', run.key) end
  aside(try, 'SREM', prefix .. ':active:' .. run.name, run.key)
  aside(forget_waiting, prefix, run)
end

-- Store the traceback of a run that has failed, and remove that of the fourth newest failure of its entry. The entry
-- knows which runs have one, in the order of their ends, each by its key without what all begin with, and a blank.
local function keep_traceback(prefix, retention, run)
  local entry = prefix .. run.name
  try('SET', traceback_of(prefix, run.key), run.traceback, 'PX', retention)
  if not exists(prefix, run.name) then return end
  local ids = (read(entry, 'tracebacks').tracebacks or '') .. string.sub(run.key, #prefix + 6) .. ' '
  local first, _, number = string.find(ids, ' ', 1, true), string.gsub(ids, ' ', ' ')
  if number > 3 then
    try('DEL', traceback_of(prefix, prefix .. ':run:' .. string.sub(ids, 1, first - 1)))
    ids = string.sub(ids, first + 1)
  end
  try('HSET', entry, 'tracebacks', #ids < 1000 and ids or '')
end

-- Return what the entry of a run knows of its runs before one has ended in a state; nothing where it was deleted.
local function known_of(prefix, run, state)
  return exists(prefix, run.name) and read(prefix .. run.name, 'failures', 'buffered', 'ends', 'span', count_of(state))
end

-- Store that a run of an entry has ended well, of which one is to do so in `span` seconds: nothing is promised any more
-- then, or, where another one is active, from now on.
local function keep_promise(prefix, run, span)
  local entry, promises = prefix .. run.name, prefix .. ':promises'
  if instant(span) and #active_of(prefix, run.name, 1, run.key) > 0 then
    try('ZADD', promises, server_time(span), entry)
  else
    try('ZREM', promises, entry)
  end
end

-- Store the end of a run with further fields, schedule the run that waited for it, and count it unless its entry was
-- deleted. Its state is stored first, and whatever else is refused does not keep it from being stored.
local function end_run(prefix, limit, retention, run, state, is_failure, fields)
  try('HSET', run.key, 'state', state, 'finished_at', run.finished_at or server_time(), unpack(fields or {}))
  unlist(prefix, run)
  local stored = aside(known_of, prefix, run, state)
  local buffered = stored and stored.buffered
  if buffered then aside(release_buffered, prefix, run.name, false, buffered) end
  expire(prefix, retention, run, state)
  if run.traceback then aside(keep_traceback, prefix, retention, run) end
  aside(cap_history, prefix, run.name, limit, retention, buffered)
  if run.state ~= state then note_end(prefix, run, state, is_failure, stored) end
  local is_kept = stored and stored.span and is_success(state) and run.kind ~= 'backfill'
  if is_kept then aside(keep_promise, prefix, run, stored.span) end
  aside(count_duration, prefix, run)
  publish_event(prefix, run.name)
end

-- Return all fields of a run, with its payload where a limit of bytes for it is passed, and its lease_end and
-- resend_at, as a reply has them; nil where the key holds no run. A text that is longer than beat writes it is left
-- out.
local function describe_run(prefix, key, most)
  local run = fields_of(key)
  if not is_run(run) then return nil end
  for field, text in pairs(run) do
    if #text > 4096 then run[field] = nil end
  end
  local payload = payload_of(prefix, key)
  if most and (try('STRLEN', payload) or 0) <= tonumber(most) then
    run.payload = try('GET', payload) or nil
  end
  run.lease_end = try('ZSCORE', prefix .. ':active', key) or nil
  run.resend_at = try('ZSCORE', prefix .. ':resend', key) or nil
  return run
end

-- Store the end of a run that waited for beat to send it.
local function revoke_waiting(prefix, limit, retention, run)
  if aside(buffered_of, prefix, run.name) == run.key then
    aside(try, 'HDEL', prefix .. run.name, 'buffered')
  end
  end_run(prefix, limit, retention, run, 'REVOKED')
end

-- Store that no buffered run of an entry is sent: neither the one that waits, nor one whose turn has come.
local function revoke_buffered(prefix, limit, retention, name)
  local waiting = active_of(prefix, name, 100)
  waiting[#waiting + 1] = buffered_of(prefix, name)
  for _, key in ipairs(waiting) do
    local run = read_run(key)
    if run and run.state == 'BUFFERED' then revoke_waiting(prefix, limit, retention, run) end
  end
end
