-- Commit claimed entries: record what became of them, set their next score and remove the claim.
--
-- An entry whose claim is no longer this one stays as it is: its lease ran out and another beat took it, or it was
-- deleted. One whose score an edit has set since keeps that score. Where another writer changed definition or meta
-- since, nothing is written, so that the caller can plan again with that change.
--
-- The messages of an entry are put into the broker in the same step, where that is this server. From then on nothing
-- may fail before its claim is removed, or it would be sent again: log and records of runs may be missing. An entry of
-- which only score and meta are new, as of nearly all, is written first, and claimed again if its message is refused:
-- so the messages of many follow together. They are put in before anything is done that may fail.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] broken     hash: entry name -> why it is quarantined
-- KEYS[3] statics    set: names of the static entries
-- KEYS[4] failing    sorted set: entry key -> the fire time that it owes
-- KEYS[5] receipt    string: what undoing the claim would need; deleted, since a committed claim is never undone
-- KEYS[6..] entries  hashes: the claimed entries
-- ARGV[1] claim_id   text: the claim that is committed
-- ARGV[2] more       JSON: by the place of an entry, the first being '0', what is new besides its next score and meta:
--                    definition, skipped, and where the score is a later look fire_time with is_due_now; what is
--                    missing keeps what is stored. Lines for its log, oldest first: log, each {text, count, first,
--                    last}. keep: more of its runs follow, the first at fire_time; it stays claimed. claim: what it is
--                    claimed by since then
-- ARGV[3] log        text: the key of a log, without the name of its entry
-- ARGV[4] lines      number of lines that a log keeps
-- ARGV[5] keep       milliseconds for which the log of an entry that is deleted is kept
-- ARGV[6] is_retry   '1': the script may have been executed before, with its reply lost; what it then wrote counts as
--                    written
-- ARGV[7] runs       JSON, where runs are tracked: {prefix: what every key begins with, wait: seconds that a run may
--                    wait for its start, resent: runs that were taken and sent, each {id, attempt}}; the entries then
--                    have runs, each {id, state if it is not SENT, attempt if it is not 1, fields: names and values to
--                    store, payload, eta, expires}, skipped_count, waits where a run is buffered, and span: seconds
--                    in which a run is to end well, if so; '': they are not
-- ARGV[8] proof      text: a key that the broker's connection has just stored; '': nothing is put into the broker
-- ARGV[9] there      number of the broker's database
-- ARGV[10] here      number of the database of the schedule
-- ARGV[11..] rows    for each entry: the digest of what was read; the next score, '': it has finished and is deleted;
--                    the new meta and recorded_run, '': what is stored stays; of each command that puts its messages
--                    into the broker the number of arguments, with a blank between them; and these arguments
-- Returns JSON of the entries of which nothing was written, by their place, the first being '0': {fenced: true}, the
--      claim is not ours any more, with unsure: true where an earlier call may have written it, {definition, meta,
--      recorded_run}, as another writer left them, {unproved: true}, the broker is another server, or {rejected: why
--      the broker refused its message}; of those that were written in part, {reduced: why} or {done: how many commands
--      of its messages}, and of those that stay claimed, {kept: by what}. unproved: the error, empty: the broker is
--      another server; resent: the same of runs by id, with the name of the entry where one was written in part, and
--      {gone: true} of one that another beat has taken since, or that needs no message any more; reduced: the same of
--      what is counted of all runs together, {reduced, name: the first entry}
local schedule, broken, statics, failing, receipt = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local claim_id, more, log, lines, keep = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local is_retry, runs, proof, there, here = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]

local any_broken = redis.call('TYPE', broken).ok == 'hash'
local any_failing = redis.call('TYPE', failing).ok == 'zset'

local function name_of(key) return string.sub(key, #schedule - 8) end -- behind the prefix, which ':schedule' follows

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

-- Return a text as a number, nil if it is none. Of the texts of a commit many are equal, and reading one takes long.
local numbers = {}
local function number_of(text)
  local number = numbers[text] or tonumber(text)
  numbers[text] = number
  return number
end

-- Return what is recorded of a run: its fire time and, where no record of runs says how late it left, the seconds if it
-- was more than one. The run belongs to this claim if its fire time is not before the claimed one.
local function recorded(fire_time, claimed)
  local at = runs == '' and fire_time and number_of(fire_time) -- nil where it stays as it was, with its seconds
  local late = at and number_of(now) - at or 0
  if late <= 1 or not claimed or at < claimed then return fire_time end
  return string.format('%s %d', fire_time, math.floor(late + 0.5))
end

local broker = {there = there, here = here}
local answers, news, waiting = {}, cjson.decode(more), {}
local has_more = next(news) ~= nil
broker.why_apart = proof ~= '' and why_apart(broker, proof)

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
  local recorded_run = recorded(new.recorded_run, instant(stored.fire_time))
  local refusal, done = put(broker, new.push, new.lengths)
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
  local is_kept = is_ours and new.keep
  if is_kept then
    redis.call('HDEL', key, 'last_error', 'tries', 'failing_since')
    answer.kept = keep_claim(claim_id, key, new.fire_time)
  else
    clear_claim(key, 'last_error', 'tries', 'failing_since')
  end
  if is_ours and not is_kept then schedule_next(key, new) end
  return next(answer) and answer
end

-- What is read of an entry of which only score and meta are new, and what is stored again if its message is refused.
local USUAL = {'claim', 'definition', 'meta', 'recorded_run', 'fire_time', 'look_at', 'is_due_now', 'last_error'}

-- Write the next score and meta of such an entry, and remove its claim. Return what was stored; nil: something is in
-- the way, or more is to be done, and nothing was written.
local function write_usual(key, seen, score, meta, recorded_run)
  local stored = redis.pcall('HMGET', key, unpack(USUAL))
  local claim, definition, stored_meta, stored_run, fire_time, look_at, _, last_error = unpack(stored)
  if claim ~= claim_id or not (definition and fire_time and look_at) or last_error then return nil end
  local texts = definition .. '\n' .. (stored_meta or '') .. '\n' .. (stored_run or '')
  if redis.sha1hex(texts) ~= seen then return nil end
  local score_now, claimed = redis.call('ZSCORE', schedule, key), number_of(fire_time)
  if not (score_now and claimed) or number_of(score_now) ~= number_of(look_at) then return nil end
  if any_broken and redis.call('HEXISTS', broken, name_of(key)) == 1 then return nil end
  if any_failing then try('ZREM', failing, key) end
  redis.call('HSET', key, 'meta', meta, 'recorded_run', recorded(recorded_run, claimed))
  redis.call('ZADD', schedule, score, key)
  clear_claim(key, 'tries', 'failing_since')
  return stored
end

-- Store again what such an entry had: its message was refused.
local function claim_again(key, stored)
  for i, field in ipairs(USUAL) do
    if stored[i] then
      redis.call('HSET', key, field, stored[i])
    else
      redis.call('HDEL', key, field)
    end
  end
  redis.call('ZADD', schedule, stored[6], key)
end

-- Put in messages of entries that were written without them. Those for one list that follow each other are one command.
local function push_waiting(items)
  local first, places = 1, {}
  for i, item in ipairs(items) do
    local place, next_place = item.place, items[i + 1] and items[i + 1].place
    places[#places + 1] = place
    local is_alike = next_place and #places < 100 and item.lengths == '3' and items[i + 1].lengths == '3'
    is_alike = is_alike and ARGV[place] == 'LPUSH' and ARGV[next_place] == 'LPUSH'
    if not (is_alike and ARGV[next_place + 1] == ARGV[place + 1]) then
      local done, problem = 0, nil
      if first < i then
        problem = push_alike(places)
      else
        done, problem = push(place, item.lengths)
      end
      for each = first, problem and i or 0 do items[each].done, items[each].problem = done, problem end
      first, places = i + 1, {}
    end
  end
  return items
end

-- Put in all messages that wait. An entry is claimed again if its first one is refused.
local function put_in_waiting()
  local items = waiting
  waiting = {}
  if #items == 0 then return end
  local pushed = in_broker(broker, push_waiting, items)
  for _, item in ipairs(items) do
    local problem = pushed.err or item.problem
    if problem and (item.done or 0) == 0 then
      claim_again(item.key, item.stored)
      answers[tostring(item.number)] = {rejected = problem}
    elseif problem then
      answers[tostring(item.number)] = {done = item.done}
    end
  end
end

-- Write such an entry while messages of others wait: they are put in whatever happens. What has failed is done again
-- then, and fails as it does alone.
local function write_behind(key, ...)
  local is_done, stored = pcall(write_usual, key, ...)
  if is_done then return stored end
  put_in_waiting()
  return write_usual(key, ...)
end

-- Return the outcome of an entry with all that is new.
local function outcome(new, key, seen, score, meta, recorded_run)
  new.name, new.seen = name_of(key), seen
  new.score = score ~= '' and score or nil
  new.meta = meta ~= '' and meta or nil
  new.recorded_run = recorded_run ~= '' and recorded_run or nil
  return new
end

if proof ~= '' then need_room_and_rights(schedule, receipt) end
need_rights(receipt)
answers.unproved = broker.why_apart
local row = 11
for i = 6, #KEYS do
  local key, stored = KEYS[i], nil
  local seen, score, meta, recorded_run, lengths = unpack(ARGV, row, row + 4)
  local new, place = has_more and news[tostring(i - 6)] or nil, row + 5
  row = lengths == '3' and place + 3 or behind(place, lengths)
  if not new and score ~= '' and meta ~= '' and recorded_run ~= '' and (lengths == '' or not broker.why_apart) then
    local write = #waiting > 0 and write_behind or write_usual
    stored = write(key, seen, score, meta, recorded_run)
  end
  if not stored then
    put_in_waiting()
    new = outcome(new or {}, key, seen, score, meta, recorded_run)
    new.push, new.lengths = lengths ~= '' and place or nil, lengths
    answers[tostring(i - 6)] = commit(key, new) or nil
  elseif lengths ~= '' then
    waiting[#waiting + 1] = {number = i - 6, key = key, stored = stored, place = place, lengths = lengths}
  end
end
put_in_waiting()
if runs ~= '' then record_all_resent(answers, broker) end
return cjson.encode(answers)
