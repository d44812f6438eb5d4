-- Take due entries for a lease, oldest first. The score of each becomes the end of the lease, so that it becomes due
-- again by itself, with the same fire time, when nobody commits it.
--
-- Where more entries are due than one claim takes, some of the newest replace the last of the oldest: a long backlog
-- must not delay what has just become due.
--
-- The score is the authority on the fire time, except where beat wrote a later one (the end of a lease, a retry,
-- jitter): then the entry's field fire_time holds the fire time, and look_at that score. A score of 0 means now,
-- whatever the meta says; is_due_now records that. A member may be the bare name of an entry, which is corrected; one
-- without a hash is reported.
--
-- Entry keys are read from the schedule, not passed in KEYS: they share its slot by construction (one hash tag in the
-- prefix). So do the key that says when a beat claimed last, and that which lists calendars; a beat without a right to
-- these claims all the same.
-- All entries are read before any is written: on a cluster that moves the slot, reading a key that has left fails the
-- script. Without a right that a commit needs, nothing is taken.
--
-- An entry of more bytes than a limit is taken, but not read. When what was read is enough for one reply, the rest
-- stays due for the next claim. A change of the zone that no beat could finish, because one of its two keys holds
-- another type, does not stop claims.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] lock       string: token of the leader
-- KEYS[3] id         string: identity of this schedule, created here when it is missing
-- KEYS[4] receipt    string: the end of the lease of this claim, kept until then so that the claim can be undone
-- KEYS[5] format     string: version of what beat writes
-- KEYS[6] zone       string: the zone of entries that have none of their own
-- KEYS[7] before     string: the zone before it, without a time to live while their fire times are planned again
-- KEYS[8] beats      hash: token -> JSON of each beat
-- KEYS[9] pause      string: why the schedule is paused; only while it is
-- ARGV[1] token      text: what the lock must hold; empty: there is no lock
-- ARGV[2] claim_id   text: marks the entries that this claim takes
-- ARGV[3] lease      seconds
-- ARGV[4] limit      number of entries
-- ARGV[5] newest     number of the newest entries among them, where more are due
-- ARGV[6] prefix     text: what every entry key begins with
-- ARGV[7] new_id     text: the identity if there is none yet
-- ARGV[8] version    number: what this beat writes
-- ARGV[9] most       bytes of the texts of one entry
-- ARGV[10] enough    bytes of the texts of all entries: then no other entry is read
-- ARGV[11] beat      text: the line of this beat; '': none is due
-- ARGV[12] passes    text: '1': store that a beat claims now; '': not yet again
-- ARGV[13] calendars text: the number of the newest change of a calendar by which this beat plans; '': there is none
-- ARGV[14] runs      text: '1': runs are tracked; missing: they are not
-- Returns one of these; with any but the first, nothing was taken:
--      {'CLAIMED', JSON, rows, rows, ...}: see below
--      {'FENCED', ''}: another beat holds the lock, or nobody does
--      {'OUTDATED', what the key of the format holds}: the data is newer than this beat
--      {'REPLANNING', ''}: the zone has changed, and fire times are still those of the zone before
--      {'RECALENDARED', ''}: a calendar has changed, and this beat plans by what it was before
--      {'PAUSED', milliseconds until the pause ends (text; '-1': it has no end), the server's time, passed}
-- The JSON has now, schedule_id and zone ('' where the key holds another type), next_look: the next score, next_delay:
--      when beat is to send the next delay, missing: members that stand for no entry, passed: when a beat claimed
--      before, where this claim stores that and it is known. The rows are the entries, in six
--      lines each: key, fire_time, definition, meta, recorded_run and skipped, empty where they are not stored. JSON
--      would take longer than all that is read. An entry with more, or with a line break, has an empty key, and in the
--      second line JSON with these fields, and is_due_now: '1' where it is, or instead of the last four oversized:
--      their bytes. Missing there: what is not stored.
-- Where runs are tracked, the JSON also has next_resend: when beat is to send the next run that waits; and that of an
--      entry failures, buffered, active: keys of runs, and is_abandoned: '1' where another claim took it and never
--      committed it.
local schedule, lock, id, receipt, format = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local zone, before, beats, pause = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local token, claim_id, lease, limit, newest, prefix = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local new_id, version, most, enough, beat = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]
local passes, calendars, runs = ARGV[12], ARGV[13], ARGV[14]

-- Store that a beat claims now, and return when one did before; nil: none did, or another program's text is there.
local function pass(key)
  local last = try('GET', key)
  if last ~= nil then redis.call('SET', key, server_time()) end
  return last or nil
end

local newer = newer_format(format, version)
local is_replanning = redis.call('PTTL', before) == -1 and text_at(before) and try('GET', zone) ~= nil
if token ~= '' and text_at(lock) ~= token then return {'FENCED', ''} end
if newer then return {'OUTDATED', newer} end
if is_replanning then return {'REPLANNING', ''} end
if newest_of_calendars(prefix) ~= calendars then return {'RECALENDARED', ''} end
write_beat(beats, beat)
local passed_before = passes ~= '' and aside(pass, prefix .. ':passed') or nil
if text_at(pause) then return {'PAUSED', tostring(redis.call('PTTL', pause)), server_time(), passed_before} end

local find, now = string.find, server_time()
local lease_end = string.format('%.6f', now + lease)
local found, missing, texts, scores, taken = {}, {}, {}, {}, {}
local rows, bytes, bytes_of_rows = {}, 0, 0
local fields = {'definition', 'meta', 'recorded_run', 'skipped', 'fire_time', 'look_at', 'is_due_now'}
if runs then append_fields_of_runs(fields) end
most, enough = tonumber(most), tonumber(enough)
redis.call('SET', id, new_id, 'NX')

-- Return what read_bounded does of an entry that has no long texts, as nearly all: only the two that other programs
-- write are measured before they are read. nil: it has one, or is none.
local function read_short(key)
  local length = redis.pcall('HSTRLEN', key, 'definition')
  if type(length) ~= 'number' or length == 0 then return nil end
  if length + redis.call('HSTRLEN', key, 'meta') > most then return nil end
  local stored = redis.call('HMGET', key, unpack(fields))
  local definition, meta, recorded_run, skipped, fire_time, look_at, is_due_now = unpack(stored, 1, 7)
  local size = length + #(meta or '') + #(recorded_run or '') + #(skipped or '')
  if size > most or #(fire_time or '') + #(look_at or '') + #(is_due_now or '') > 4096 then return nil end
  local entry = {
    key = key,
    size = size,
    definition = definition,
    meta = meta or nil,
    recorded_run = recorded_run or nil,
    skipped = skipped or nil,
    fire_time = fire_time or nil,
    look_at = look_at or nil,
    is_due_now = is_due_now or nil,
  }
  if runs then add_runs(entry, stored[8], stored[9], stored[10]) end
  return entry
end

local function entry_at(key)
  if not is_name(string.sub(key, #prefix + 1)) then return nil end
  local entry = read_short(key)
  if not entry then
    local read_entry = runs and read_with_runs or read_bounded
    entry = read_entry(key, most, 0, 'fire_time', 'look_at', 'is_due_now')
  end
  if not (entry.definition or entry.oversized) then return nil end
  return runs and with_active(entry, prefix) or entry
end

local function resolve(member, score)
  local is_key = find(member, prefix, 1, true) == 1
  local entry = is_key and entry_at(member) or entry_at(prefix .. member)
  bytes = bytes + (entry and entry.size or #member)
  if entry then
    found[#found + 1] = {member, score, entry}
  else
    missing[#missing + 1] = member
  end
end

local function has_break(entry)
  local meta, recorded_run, skipped = entry.meta, entry.recorded_run, entry.skipped
  return find(entry.key, '\n', 1, true) or find(entry.definition, '\n', 1, true) or meta and find(meta, '\n', 1, true)
    or recorded_run and find(recorded_run, '\n', 1, true) or skipped and find(skipped, '\n', 1, true)
end

-- Join the rows to a text of the reply. Beyond 8,192 bytes Lua makes several texts, one after the other, of each one.
local function end_rows()
  if #rows > 0 then texts[#texts + 1] = table.concat(rows, '\n') end
  rows, bytes_of_rows = {}, 0
end

local function add_row(entry, is_more)
  if bytes_of_rows > 6000 then end_rows() end
  bytes_of_rows, entry.size = bytes_of_rows + entry.size + #entry.key + 30, nil
  local at = #rows
  if is_more or entry.oversized or has_break(entry) then
    rows[at + 1], rows[at + 2], rows[at + 3] = '', cjson.encode(entry), ''
    rows[at + 4], rows[at + 5], rows[at + 6] = '', '', ''
  else
    rows[at + 1], rows[at + 2], rows[at + 3] = entry.key, entry.fire_time, entry.definition
    rows[at + 4], rows[at + 5], rows[at + 6] = entry.meta or '', entry.recorded_run or '', entry.skipped or ''
  end
end

local function take(member, score, entry)
  if entry.key ~= member then redis.call('ZREM', schedule, member) end
  if taken[entry.key] then return end
  if not is_later_look(score, entry) then
    if entry.is_due_now then redis.call('HDEL', entry.key, 'is_due_now') end
    entry.fire_time, entry.is_due_now = score, nil
  end
  if tonumber(entry.fire_time) == 0 then
    entry.fire_time, entry.is_due_now = now, '1'
  end
  redis.call('HSET', entry.key, 'fire_time', entry.fire_time, 'look_at', lease_end, 'claim', claim_id)
  if entry.is_due_now then redis.call('HSET', entry.key, 'is_due_now', '1') end
  scores[#scores + 1] = lease_end
  scores[#scores + 1] = entry.key
  entry.look_at = nil
  taken[entry.key] = true
  add_row(entry, entry.is_due_now or runs and has_runs(entry))
end

local due = redis.call('ZRANGEBYSCORE', schedule, 0, now, 'WITHSCORES', 'LIMIT', 0, limit)
local replaced = #due < 2 * limit and 0 or newest
local young = redis.call('ZREVRANGEBYSCORE', schedule, now, 0, 'WITHSCORES', 'LIMIT', 0, replaced)
for i, text in ipairs(young) do
  due[#due - #young + i] = text
end
for i = 1, #due, 2 do
  if bytes < enough then resolve(due[i], due[i + 1]) end
end
if #found > 0 then
  need_rights(receipt, 'HGET', 'ZSCORE', 'ZREM')
  redis.call('SET', receipt, lease_end, 'PX', math.ceil(lease * 1000))
end
for _, item in ipairs(found) do
  take(item[1], item[2], item[3])
end
for i = 1, #scores, 1000 do
  redis.call('ZADD', schedule, unpack(scores, i, math.min(i + 999, #scores)))
end
end_rows()
local head = {
  now = now,
  schedule_id = text_at(id) or '',
  zone = text_at(zone) or '',
  missing = missing,
  passed = passed_before,
}
head.next_look = redis.call('ZRANGEBYSCORE', schedule, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
head.next_resend = runs and next_resend(prefix)
-- Where this is refused, an error without a second part is returned: entries do not wait for that.
local delays = prefix .. ':delays'
head.next_delay = redis.pcall('ZRANGEBYSCORE', delays, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
return {'CLAIMED', cjson.encode(head), unpack(texts)}
