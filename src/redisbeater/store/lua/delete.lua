-- Delete entries and everything that is kept about them; a key that is not of this schedule stays as it is. When it is
-- executed twice, because its reply was lost, the second time deletes nothing and answers as the first.
--
-- What is needed to go on where it ended is kept for a week: of a static entry, since it comes back while the code
-- declares it, and of the newest others, which can be restored. The keys of that are built from a prefix and the names
-- of entries, and share their slot.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] broken     hash: entry name -> why it is quarantined
-- KEYS[3] statics    set: names of the static entries
-- KEYS[4] failing    sorted set: entry key -> the fire time that it owes
-- KEYS[5] answer     string: what this call has answered, kept for a minute
-- KEYS[6] deleted    sorted set: names of deleted entries -> UNIX seconds
-- KEYS[7..] entries  hashes: the entries
-- ARGV[1] channel    text: where beats listen for changes
-- ARGV[2] message    text: what is published there, once for all entries
-- ARGV[3] kept       text: what the key of a deleted entry begins with
-- ARGV[4] keep       milliseconds for which it is kept, and the log of every deleted entry
-- ARGV[5] newest     number of deleted entries that can be restored; 0: none of these is one of them
-- ARGV[6] log        text: the key of a log, without the name of its entry
-- ARGV[7] lines      number of lines that a log keeps
-- ARGV[8] line       text: what the log says of it; '' for nothing
-- ARGV[9] runs       JSON, where runs are tracked: {prefix: what every key begins with, limit and retention: how many
--                    runs of an entry are kept, and for how many milliseconds}; '': they are not
-- ARGV[10..] pairs   for each entry its name, and an origin: remove it only if it still has that one; '' whatever it
--                    has
-- Returns for each entry 'DELETED', 'STATIC': the same, and it was a static one; 'ABSENT': there was none, or 'KEPT':
--      it has another origin by now
local schedule, broken, statics, failing, answer, deleted = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local channel, message, kept, keep, newest, log = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local lines, line, runs = ARGV[7], ARGV[8], ARGV[9]

local function keep_copy(key, entry, name, problem_since)
  local fields = read(entry, 'definition', 'meta', 'recorded_run', 'skipped', 'origin', 'fire_time', 'look_at', 'ends')
  local score = redis.call('ZSCORE', schedule, entry)
  fields.score = is_later_look(score, fields) and fields.fire_time or score or nil
  fields.fire_time, fields.look_at, fields.problem_since = nil, nil, problem_since
  redis.call('DEL', key)
  for field, text in pairs(fields) do
    redis.call('HSET', key, field, text)
  end
  redis.call('PEXPIRE', key, keep)
  if newest ~= '0' then try('ZADD', deleted, server_time(), name) end
end

local function forget_older()
  for _, name in ipairs(try('ZREVRANGE', deleted, newest, -1) or {}) do
    redis.call('ZREM', deleted, name)
    if not is_static_origin(read(kept .. name, 'origin').origin) then redis.call('DEL', kept .. name) end
  end
end

local function delete(entry, name, origin)
  local is_entry = redis.call('TYPE', entry).ok == 'hash' and is_own(schedule, entry)
  local stored_origin = is_entry and (redis.call('HGET', entry, 'origin') or '')
  if is_entry and origin ~= '' and stored_origin ~= origin then return 'KEPT' end
  local is_static = origin == '' and is_entry and is_static_origin(stored_origin)
  local problem_since = list_problem(schedule, entry)
  if is_static or newest ~= '0' and is_entry then keep_copy(kept .. name, entry, name, problem_since) end
  if runs ~= '' then forget_runs(name) end
  local existed = is_entry and redis.call('DEL', entry) or 0
  redis.call('ZREM', schedule, entry)
  try('HDEL', broken, name)
  try('SREM', statics, name)
  try('ZREM', failing, entry)
  if existed == 1 and line ~= '' then add_to_log(log .. name, lines, line) end
  redis.call('PEXPIRE', log .. name, keep)
  return existed == 0 and 'ABSENT' or is_static and 'STATIC' or 'DELETED'
end

local given = given_answer(answer)
if given then return given end
local outcomes = {}
for i = 7, #KEYS do
  outcomes[i - 6] = delete(KEYS[i], unpack(ARGV, 2 * i - 4, 2 * i - 3))
end
if newest ~= '0' then forget_older() end
redis.call('PUBLISH', channel, message)
return answer_once(answer, outcomes)
