-- Give an entry another name, with everything that is kept about it, unless a beat has claimed it. When it is executed
-- twice, because its reply was lost, the second time renames nothing and answers as the first.
--
-- The keys of the logs are built from a prefix and the names of the entry, and share its slot.
--
-- KEYS[1] schedule  sorted set: entry key -> UNIX seconds
-- KEYS[2] broken    hash: entry name -> why it is quarantined
-- KEYS[3] failing   sorted set: entry key -> the fire time that it owes
-- KEYS[4] answer    string: what this call has answered, kept for a minute
-- KEYS[5] old       hash: the entry
-- KEYS[6] new       hash: its new key, which must not exist
-- ARGV[1] channel     text: where beats listen for changes
-- ARGV[2] message     text: what is published there
-- ARGV[3] old_name    text: the name that it has
-- ARGV[4] new_name    text: the name that it gets
-- ARGV[5] definition  JSON: its definition with that name
-- ARGV[6] seen        text: the digest of what was read
-- ARGV[7] score       UNIX seconds: its new fire time; '': the score that it has stays
-- ARGV[8] most        bytes of the texts of one entry
-- ARGV[9] log         text: the key of a log, without the name of its entry
-- ARGV[10] lines      number of lines that a log keeps
-- ARGV[11] line       text: what the log says of it
-- ARGV[12] runs       JSON, where runs are tracked: {prefix: what every key begins with}; missing: they are not
-- Returns 'RENAMED'; or 'ABSENT': there is no entry, 'EXISTS': there is one of the new name, 'NOT_OURS': the new key
--      is, or would be, another's, 'CLAIMED': a beat has claimed it, 'ACTIVE': it has a run that has not ended, or
--      'CONFLICT': it was changed since it was read; then nothing was written
local schedule, broken, failing, answer, old, new = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local channel, message, old_name, new_name, definition, seen = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local score, most, log, lines, line, runs = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12]

local function refusal()
  if redis.call('TYPE', old).ok ~= 'hash' then return 'ABSENT' end
  if redis.call('TYPE', new).ok ~= 'none' then return is_own(schedule, new) and 'EXISTS' or 'NOT_OURS' end
  if is_below_another(schedule, new) then return 'NOT_OURS' end
  local stored = read_bounded(old, most, 0, 'claim')
  local look = redis.call('ZSCORE', schedule, old)
  if stored.claim and look and tonumber(look) > tonumber(server_time()) then return 'CLAIMED' end
  if runs and has_active_run(old, old_name) then return 'ACTIVE' end
  return digest(stored) ~= seen and 'CONFLICT'
end

local function move(set)
  local stored = try('ZSCORE', set, old)
  if not stored then return end
  redis.call('ZREM', set, old)
  redis.call('ZADD', set, stored, new)
end

-- Give the incidents of the entry its new name.
local function rename_incidents(prefix)
  local current, open_ones = prefix .. ':current', prefix .. ':open'
  for _, kind in ipairs({'failed', 'waiting', 'overdue', 'not_sent', 'broken'}) do
    local from, to = kind .. ' ' .. old_name, kind .. ' ' .. new_name
    local incident = try('HGET', current, from)
    if incident then
      local opened = try('ZSCORE', open_ones, from)
      redis.call('HSET', prefix .. ':incident:' .. incident, 'entry', new_name)
      redis.call('HSET', current, to, incident)
      redis.call('HDEL', current, from)
      if opened then
        redis.call('ZADD', open_ones, opened, to)
        redis.call('ZREM', open_ones, from)
      end
    end
  end
end

local function rename()
  redis.call('RENAME', old, new)
  redis.call('HSET', new, 'definition', definition)
  redis.call('HDEL', new, 'claim')
  if runs then rename_runs(old_name, new_name) end
  move(schedule)
  move(failing)
  local prefix = string.sub(schedule, 1, -10) -- the key of the schedule is the prefix and ':schedule'
  for _, problem in ipairs({':failed', ':unstable'}) do
    move(prefix .. problem)
  end
  aside(move, prefix .. ':promises')
  aside(rename_incidents, prefix)
  if score ~= '' then
    clear_claim(new)
    redis.call('ZADD', schedule, score, new)
  end
  local report = try('HGET', broken, old_name)
  if report then
    if is_name(old_name) then redis.call('HSET', broken, new_name, report) end
    redis.call('HDEL', broken, old_name)
  end
  if redis.call('TYPE', log .. old_name).ok == 'list' then
    redis.call('RENAME', log .. old_name, log .. new_name)
  end
  add_to_log(log .. new_name, lines, line)
  redis.call('PUBLISH', channel, message)
  return 'RENAMED'
end

local given = given_answer(answer)
return given or answer_once(answer, refusal() or rename())
