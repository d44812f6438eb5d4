-- Put an entry back that was deleted, unless another one has its name. When it is executed twice, because its reply was
-- lost, the second time restores nothing and answers as the first.
--
-- The key of the log is built from a prefix and the name of the entry, and shares its slot.
--
-- KEYS[1] schedule  sorted set: entry key -> UNIX seconds
-- KEYS[2] statics   set: names of the static entries
-- KEYS[3] deleted   sorted set: names of deleted entries -> UNIX seconds
-- KEYS[4] answer    string: what this call has answered, kept for a minute
-- KEYS[5] kept      hash: what is kept of the entry
-- KEYS[6] entry     hash: the entry
-- ARGV[1] channel   text: where beats listen for changes
-- ARGV[2] name      text: the name of the entry, which is published there
-- ARGV[3] score     UNIX seconds: its score
-- ARGV[4] log       text: the key of a log, without the name of its entry
-- ARGV[5] lines     number of lines that a log keeps
-- ARGV[6] line      text: what the log says of it
-- Returns 'RESTORED'; or 'ABSENT': nothing is kept, 'EXISTS': there is an entry of that name, or 'NOT_OURS': its key
--      is, or would be, another's by now; then nothing was written
local schedule, statics, deleted, answer, kept, entry = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local channel, name, score, log, lines, line = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local function restore_copy()
  local fields = read(kept, 'definition', 'meta', 'recorded_run', 'skipped', 'origin', 'ends', 'problem_since')
  if not fields.definition then return 'ABSENT' end
  if redis.call('TYPE', entry).ok ~= 'none' then return is_own(schedule, entry) and 'EXISTS' or 'NOT_OURS' end
  if is_below_another(schedule, entry) then return 'NOT_OURS' end
  local since = fields.problem_since
  fields.problem_since = nil
  for field, text in pairs(fields) do
    redis.call('HSET', entry, field, text)
  end
  redis.call('ZADD', schedule, score, entry)
  list_problem(schedule, entry, fields.ends, since)
  if is_static_origin(fields.origin) then try('SADD', statics, name) end
  redis.call('DEL', kept)
  try('ZREM', deleted, name)
  redis.call('PERSIST', log .. name)
  add_to_log(log .. name, lines, line)
  redis.call('PUBLISH', channel, name)
  return 'RESTORED'
end

local given = given_answer(answer)
return given or answer_once(answer, restore_copy())
