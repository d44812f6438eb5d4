-- Commit claimed entries: record what became of them, set their next score and remove the claim.
--
-- An entry whose claim is no longer this one stays as it is: its lease ran out and another beat took it, or it was
-- deleted. One whose score an edit has set since keeps that score. Where another writer changed definition or meta
-- since, nothing is written, so that the caller can plan again with that change.
--
-- The messages of an entry are put into the broker in the same step, where that is this server. From then on nothing
-- may fail before its claim is removed, or it would be sent again: log and records of runs may be missing.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] broken     hash: entry name -> why it is quarantined
-- KEYS[3] statics    set: names of the static entries
-- KEYS[4] failing    sorted set: entry key -> the fire time that it owes
-- KEYS[5] receipt    string: what undoing the claim would need; deleted, since a committed claim is never undone
-- KEYS[6..] entries  hashes: the claimed entries
-- ARGV[1] claim_id   text: the claim that is committed
-- ARGV[2] outcomes   JSON: for each entry {name, seen: digest of what was read, score: the next one; missing: the entry
--                    has finished and is deleted}, and what else is new: meta with recorded_run, definition, skipped,
--                    and where the score is a later look fire_time with is_due_now; what is missing keeps what is
--                    stored. Lines for its log, oldest first: log, each {text, count, first, last}. Its messages: push,
--                    for each command which of these arguments is its first one, and which its last. keep:
--                    more of its runs follow, the first at fire_time; it stays claimed. claim: what it is claimed by
--                    since then
-- ARGV[3] log        text: the key of a log, without the name of its entry
-- ARGV[4] lines      number of lines that a log keeps
-- ARGV[5] keep       milliseconds for which the log of an entry that is deleted is kept
-- ARGV[6] is_retry   '1': the script may have been executed before, with its reply lost; what it then wrote counts as
--                    written
-- ARGV[7] runs       JSON, where runs are tracked: {prefix: what every key begins with, wait: seconds that a run may
--                    wait for its start, resent: runs that were taken and sent, each {id, attempt}}; the outcomes then
--                    have runs, each {id, state if it is not SENT, attempt if it is not 1, fields: names and values to
--                    store, payload, eta, expires}, skipped_count, waits where a run is buffered, and span: seconds
--                    in which a run is to end well, if so; '': they are not
-- ARGV[8] proof      text: a key that the broker's connection has just stored; missing: nothing is put into the broker
-- ARGV[9] there      number of the broker's database
-- ARGV[10] here      number of the database of the schedule
-- ARGV[11..] push    the commands that put messages into the broker, one argument after the other
-- Returns JSON of the entries of which nothing was written, by their place, the first being '0': {fenced: true}, the
--      claim is not ours any more, with unsure: true where an earlier call may have written it, {definition, meta,
--      recorded_run}, as another writer left them, {unproved: true}, the broker is another server, or {rejected: why
--      the broker refused its message}; of those that were written in part, {reduced: why} or {done: how many commands
--      of its messages}, and of those that stay claimed, {kept: by what}. unproved: the error, empty: the broker is
--      another server; resent: the same of runs by id, with the name of the entry where one was written in part, and
--      {gone: true} of one that another beat has taken since, or that needs no message any more; reduced: the same of
--      what is counted of all runs together, {reduced, name: the first entry}
local schedule, broken, statics, failing, receipt = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local claim_id, outcomes, log, lines, keep = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local is_retry, runs, proof, there, here = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]

local any_broken = redis.call('TYPE', broken).ok == 'hash'
local any_failing = redis.call('TYPE', failing).ok == 'zset'

local function delete(key, name)
  redis.call('DEL', key)
  redis.call('ZREM', schedule, key)
  try('SREM', statics, name)
  list_problem(schedule, key)
  redis.call('PEXPIRE', log .. name, keep)
end

local function schedule_next(key, new)
  redis.call('ZADD', schedule, new.score, key)
  if new.definition then redis.call('HSET', key, 'definition', new.definition) end
  if new.fire_time then redis.call('HSET', key, 'fire_time', new.fire_time, 'look_at', new.score) end
  if new.is_due_now then redis.call('HSET', key, 'is_due_now', new.is_due_now) end
end

-- Return what is recorded of a run: its fire time and, where no record of runs says how late it left, the seconds if it
-- was more than one. The run belongs to this claim if its fire time is not before the claimed one.
local function recorded(fire_time, claimed)
  local late = runs == '' and instant(fire_time) and server_time() - fire_time or 0
  if late <= 1 or tonumber(fire_time) < (instant(claimed) or math.huge) then return fire_time end
  return string.format('%s %.0f', fire_time, late)
end

local broker = {there = there, here = here}
broker.why_apart = proof and why_apart(broker, proof)

local function record(key, new, is_deleted)
  if any_failing then redis.call('ZREM', failing, key) end
  if runs ~= '' then record_runs(new, is_deleted) end
  for _, line in ipairs(new.log or {}) do
    add_to_log(log .. new.name, lines, unpack(line))
  end
  if any_broken and redis.call('HDEL', broken, new.name) == 1 then add_to_log(log .. new.name, lines, 'fixed {}') end
end

-- Return what kept an entry from being written, without its claim or with another definition; nil: nothing.
local function conflict(new, stored, claim)
  local is_deleted = not new.score and not stored.definition
  local is_written = not stored.claim and (stored.meta == new.meta or not new.meta or is_deleted)
  if is_retry == '1' and is_written then return {} end
  if is_retry == '1' and stored.claim ~= claim and is_kept_by(claim_id, stored) then return {kept = stored.claim} end
  if stored.claim ~= claim then return {fenced = true, unsure = is_retry == '1' or nil} end
  if digest(stored) == new.seen then return nil end
  return {definition = stored.definition, meta = stored.meta, recorded_run = stored.recorded_run}
end

local function commit(key, new)
  local stored = read(key, 'claim', 'definition', 'meta', 'recorded_run', 'fire_time', 'look_at')
  local answer = conflict(new, stored, new.claim or claim_id)
  if answer then return next(answer) and answer end
  local is_ours = is_later_look(redis.call('ZSCORE', schedule, key), stored)
  local recorded_run = recorded(new.recorded_run, stored.fire_time)
  local refusal, done = put(broker, new.push)
  if refusal then return refusal end
  local is_deleted = is_ours and not new.score
  local problem = new.push and problem_in(record, key, new, is_deleted)
  if not new.push then record(key, new, is_deleted) end
  local refusals = take_refused()
  answer = {reduced = problem or refusals, done = done}
  if is_deleted then
    delete(key, new.name)
    return next(answer) and answer
  end
  write_meta(key, new.meta, recorded_run)
  if new.skipped then redis.call('HSET', key, 'skipped', new.skipped) end
  redis.call('HDEL', key, 'last_error', 'tries', 'failing_since')
  local is_kept = is_ours and new.keep
  answer.kept = is_kept and keep_claim(claim_id, key, new.fire_time) or nil
  if not is_kept then clear_claim(key) end
  if is_ours and not is_kept then schedule_next(key, new) end
  return next(answer) and answer
end

if proof then need_room_and_rights(schedule, receipt) end
need_rights(receipt)
local answers, news = {unproved = broker.why_apart}, cjson.decode(outcomes)
for i = 6, #KEYS do
  answers[tostring(i - 6)] = commit(KEYS[i], news[i - 5]) or nil
end
if runs ~= '' then record_all_resent(answers, broker) end
return cjson.encode(answers)
