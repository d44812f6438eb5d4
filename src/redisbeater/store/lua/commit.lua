-- Commit claimed entries: record what became of them, set their next score and remove the claim.
--
-- An entry whose claim is no longer this one stays as it is: its lease ran out and another beat took it, or it was
-- deleted. One whose score an edit has set since keeps that score. Where another writer changed definition or meta
-- since, nothing is written, so that the caller can plan again with that change.
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
--                    stored. Lines for its log, oldest first: log, each {text, count, first, last}
-- ARGV[3] log        text: the key of a log, without the name of its entry
-- ARGV[4] lines      number of lines that a log keeps
-- ARGV[5] keep       milliseconds for which the log of an entry that is deleted is kept
-- ARGV[6] is_retry   '1': the script may have been executed before, with its reply lost; what it then wrote counts as
--                    written
-- ARGV[7] runs       JSON, where runs are tracked: {prefix: what every key begins with, wait: seconds that a run may
--                    wait for its start, resent: runs that were taken and sent, each {id, attempt}}; the outcomes then
--                    have runs, each {id, state if it is not SENT, attempt if it is not 1, fields: names and values to
--                    store, payload, eta, expires}, skipped_count, and waits where a run is buffered; missing: they are
--                    not
-- Returns JSON of the entries of which nothing was written, by their place, the first being '0': {fenced: true}, the
--      claim is not ours any more, or {definition, meta, recorded_run}, as another writer left them
local schedule, broken, statics, failing, receipt = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local claim_id, outcomes, log, lines, keep = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local is_retry, runs = ARGV[6], ARGV[7]

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
  local late = not runs and instant(fire_time) and server_time() - fire_time or 0
  if late <= 1 or tonumber(fire_time) < (instant(claimed) or math.huge) then return fire_time end
  return string.format('%s %.0f', fire_time, late)
end

local function commit(key, new)
  local stored = read(key, 'claim', 'definition', 'meta', 'recorded_run', 'fire_time', 'look_at')
  local is_deleted = not new.score and not stored.definition
  local is_written = not stored.claim and (stored.meta == new.meta or not new.meta or is_deleted)
  if is_retry == '1' and is_written then return nil end
  if stored.claim ~= claim_id then return {fenced = true} end
  if digest(stored) ~= new.seen then
    return {definition = stored.definition, meta = stored.meta, recorded_run = stored.recorded_run}
  end
  local is_ours = is_later_look(redis.call('ZSCORE', schedule, key), stored)
  if runs then record_runs(new, is_ours and not new.score) end
  for _, line in ipairs(new.log or {}) do
    add_to_log(log .. new.name, lines, unpack(line))
  end
  if any_broken and redis.call('HDEL', broken, new.name) == 1 then add_to_log(log .. new.name, lines, 'fixed {}') end
  if any_failing then redis.call('ZREM', failing, key) end
  if is_ours and not new.score then return delete(key, new.name) end
  write_meta(key, new.meta, recorded(new.recorded_run, stored.fire_time))
  redis.call('HDEL', key, 'claim', 'fire_time', 'look_at', 'is_due_now', 'last_error', 'tries', 'failing_since')
  if new.skipped then redis.call('HSET', key, 'skipped', new.skipped) end
  if is_ours then schedule_next(key, new) end
end

need_rights(receipt)
local refused, news = {}, cjson.decode(outcomes)
for i = 6, #KEYS do
  refused[tostring(i - 6)] = commit(KEYS[i], news[i - 5])
end
if runs then record_all_resent() end
return cjson.encode(refused)
