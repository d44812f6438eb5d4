-- Create or change entries, each if it still is what its change was based on: definition, meta, fire time, claim, and
-- the versions of the calendars by which it was planned. The key of these is built from that of the schedule.
--
-- An entry that is claimed at this moment keeps its claim, so that its run is recorded. A new score replaces that of
-- the claim, and the fire time that was stored with it; without a new score the commit sets the next. The changes come
-- as one text, because a client packs a thousand small arguments slowly. When it is executed twice, because its reply
-- was lost, the second time writes nothing and answers as the first. Of an entry that was too large to be read only the
-- change stays. A failing entry that is edited is tried again at once, and its tries are counted from 0.
--
-- KEYS[1] schedule    sorted set: entry key -> UNIX seconds
-- KEYS[2] broken      hash: entry name -> why it is quarantined
-- KEYS[3] statics     set: names of the static entries
-- KEYS[4] failing     sorted set: entry key -> the fire time that it owes
-- KEYS[5] answer      string: what this call has answered, kept for a minute
-- KEYS[6] zone        string: the zone of entries that have none of their own
-- KEYS[7] rules       hash: zone -> JSON: the rules by which its local times were planned
-- KEYS[8..] entries   hashes: the entries
-- ARGV[1] channel     text: where beats listen for changes
-- ARGV[2] message     text: what is published there, once for all entries
-- ARGV[3] changes     JSON: for each entry {name, definition}, and what else is new: score, meta with recorded_run,
--                     origin of a static entry (its application, and a digest of its declaration) or of a file's entry;
--                     what is missing keeps what is stored. log: a line for the log; skipped: that of a backup;
--                     zones and rules: the zones on whose rules its score depends, and the ids of those by which it was
--                     planned, calendars: those that it names and their versions; without a definition, only these
--                     are written. Then
--                     what was read, missing where there was none: seen (the digest of what is stored), planned (the
--                     fire time), claim. Of an entry that was not read as_of, UNIX seconds, and zone: by which time and
--                     zone of those that inherit it is planned
-- ARGV[4] most        bytes of the texts of one entry
-- ARGV[5] log         text: the key of a log, without the name of its entry
-- ARGV[6] lines       number of lines that a log keeps
-- ARGV[7] planned_by  JSON: {zone: that by which the scores were planned where none is stored; '': it is; rules: of
--                     each zone {id, text}; is_beat: whether a beat plans entries again}; '': it is not said
-- ARGV[8] runs        JSON, where runs are tracked: {prefix: what every key begins with, limit and retention: how many
--                     runs of an entry are kept, and for how many milliseconds}; a change then may have switches:
--                     'enabled' or 'disabled'; missing: they are not
-- Returns {position, word} of each entry that was not written, 'CONFLICT': it was changed since it was read, 'FOREIGN':
--      the key holds something that is no entry, or 'NOT_OURS': it is not of this schedule, or would be another's; and
--      with position 0 the zones of which entries were planned by other rules than those of a program that is no beat
local schedule, broken, statics, failing, answer, zone = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local rules = KEYS[7]
local channel, message, changes, most, log, lines = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local planned_by, runs = ARGV[7], ARGV[8]

local rows, mine = cjson.decode(changes), planned_by ~= '' and cjson.decode(planned_by) or {rules = {}}
local scores, unwritten, others = {}, {}, {}

-- Note the zones of which other rules count, and record those of this program beside them.
local function record_rules(name, own)
  local first = try('HGET', rules, name)
  if first == nil then return end
  if not first then return redis.call('HSET', rules, name, own.text) end
  if string.find(first, own.id, 1, true) then return end
  others[#others + 1], others[name] = name, true
  redis.call('HSET', rules, name .. ' ' .. own.id, own.text)
  if not mine.is_beat then redis.call('HSET', rules, ':again', '1') end
end

local calendars = string.sub(schedule, 1, -10) .. ':calendars' -- that of the schedule is the prefix and ':schedule'

-- Tell whether the calendars by which an entry is planned have other versions by now.
local function is_outdated(change)
  for name, version in string.gmatch(change.calendars or '', '(%S+)=(%d+)') do
    if try('HGET', calendars, name) ~= version then return true end
  end
end

local function mark(key, change)
  if change.calendars then
    redis.call('HSET', key, 'calendars', change.calendars)
  elseif change.seen then
    redis.call('HDEL', key, 'calendars')
  end
  for name in string.gmatch(change.zones or '', '%S+') do
    if others[name] then return redis.call('HSET', key, 'rules', change.rules) end
  end
  if change.seen then redis.call('HDEL', key, 'rules') end
end

-- Tell whether an entry that was not read is planned by the zone of now, and by a time that has come, just before now.
local function is_as_expected(change)
  local age = server_time() - change.as_of
  return age >= 0 and age <= 1 and (text_at(zone) or '') == (change.zone or '')
end

local function refusal(key, change)
  local kind = redis.call('TYPE', key).ok
  if change.as_of and not is_as_expected(change) or is_outdated(change) then return 'CONFLICT' end
  if kind == 'none' then return change.seen and 'CONFLICT' or is_below_another(schedule, key) and 'NOT_OURS' end
  if kind ~= 'hash' then return 'FOREIGN' end
  local stored = read_bounded(key, most, 0, 'claim', 'fire_time', 'look_at')
  local score = redis.call('ZSCORE', schedule, key)
  if not score and not is_own(schedule, key, most) then return 'NOT_OURS' end
  local planned = is_later_look(score, stored) and stored.fire_time or score or nil
  if planned ~= change.planned or stored.claim ~= change.claim then return 'CONFLICT' end
  if digest(stored) ~= (change.seen or '') then return 'CONFLICT' end
  if stored.oversized then redis.call('HDEL', key, 'meta', 'recorded_run', 'skipped') end
end

local function save(key, change)
  -- First what a full memory refuses: then nothing is written.
  if change.definition then redis.call('HSET', key, 'definition', change.definition) end
  if change.score or change.zones or change.calendars then mark(key, change) end
  if not change.definition then return end
  write_meta(key, change.meta, change.recorded_run, change.skipped)
  if change.origin then
    redis.call('HSET', key, 'origin', change.origin)
    try(is_static_origin(change.origin) and 'SADD' or 'SREM', statics, change.name)
  end
  local was_failing = change.seen and clear_failure(failing, key)
  local score = change.score
  if score and change.seen then redis.call('HDEL', key, 'fire_time', 'look_at', 'is_due_now') end
  if was_failing and not score and not change.claim and read(key, 'fire_time').fire_time == change.planned then
    score = change.planned
    redis.call('HSET', key, 'look_at', score)
  end
  if score then
    scores[#scores + 1] = score
    scores[#scores + 1] = key
  end
  if runs and change.switches then switch_runs(key, change) end
  if change.log then add_to_log(log .. change.name, lines, change.log) end
  try('HDEL', broken, change.name)
end

local given = given_answer(answer)
if given then return given end
for name, own in pairs(mine.rules) do record_rules(name, own) end
for i = 8, #KEYS do
  local word = refusal(KEYS[i], rows[i - 7])
  if word then
    unwritten[#unwritten + 1] = {i - 7, word}
  else
    save(KEYS[i], rows[i - 7])
  end
end
if (mine.zone or '') ~= '' and #scores > 0 then redis.call('SET', zone, mine.zone, 'NX') end
if #scores > 0 then redis.call('ZADD', schedule, unpack(scores)) end
if #unwritten < #rows then redis.call('PUBLISH', channel, message) end
if #others > 0 and not mine.is_beat then unwritten[#unwritten + 1] = {0, table.concat(others, ', ')} end
return answer_once(answer, unwritten)
