-- Put static entries back that were deleted, with their counters and their fire times, unless an entry of that name
-- exists.
--
-- The keys of what was kept are built from a prefix and the names of the entries, and share their slot. When it is
-- executed twice, the second time finds that the entries exist.
--
-- KEYS[1] schedule       sorted set: entry key -> UNIX seconds
-- KEYS[2] statics        set: names of the static entries
-- KEYS[3..] entries      hashes: the entries
-- ARGV[1] kept           text: what the key of a deleted static entry begins with
-- ARGV[2] application    text: whose entries are put back; others stay deleted
-- ARGV[3] origin         text: the origin that they get
-- ARGV[4..] names        the names of the entries
-- Returns for each entry 'RESTORED' or 'ABSENT': nothing was kept, its key exists, or would be one of another schedule
--      by now
local schedule, statics = KEYS[1], KEYS[2]
local kept, application, origin = ARGV[1], ARGV[2], ARGV[3]

-- Tell whether an origin, an application and a digest parted by a blank, is of our application.
local function is_ours(text)
  return string.find(text, application .. ' ', 1, true) == 1 and not string.find(text, ' ', #application + 2, true)
end

local function restore_static(entry, name)
  local fields = read(
    kept .. name, 'definition', 'meta', 'recorded_run', 'skipped', 'origin', 'score', 'ends', 'problem_since'
  )
  if not is_ours(fields.origin or '') or redis.call('TYPE', entry).ok ~= 'none' then return 'ABSENT' end
  if is_below_another(schedule, entry) then return 'ABSENT' end
  local score, since = fields.score, fields.problem_since
  fields.origin, fields.score, fields.problem_since = origin, nil, nil
  for field, text in pairs(fields) do
    redis.call('HSET', entry, field, text)
  end
  if score then redis.call('ZADD', schedule, score, entry) end
  list_problem(schedule, entry, fields.ends, since)
  try('SADD', statics, name)
  redis.call('DEL', kept .. name)
  return 'RESTORED'
end

local outcomes = {}
for i = 3, #KEYS do
  outcomes[#outcomes + 1] = restore_static(KEYS[i], ARGV[i + 1])
end
return outcomes
