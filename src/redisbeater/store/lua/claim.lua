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
-- prefix). So does the key that says when a beat claimed last; a beat without a right to that key claims all the same.
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
-- ARGV[12] runs      text: '1': runs are tracked; missing: they are not
-- Returns one of these pairs; with any but the first, nothing was taken:
--      {'CLAIMED', JSON}: see below
--      {'FENCED', ''}: another beat holds the lock, or nobody does
--      {'OUTDATED', what the key of the format holds}: the data is newer than this beat
--      {'REPLANNING', ''}: the zone has changed, and fire times are still those of the zone before
--      {'PAUSED', milliseconds until the pause ends (text; '-1': it has no end), the server's time, passed}
-- The JSON has now, schedule_id and zone ('' where the key holds another type), next_look: the next score, missing:
--      members that stand for no entry, passed: when a beat claimed before, where this claim carries a line and that is
--      known, and entries. Each entry has key, fire_time, is_due_now: '1' where it is, and
--      definition, meta, recorded_run and skipped, or instead of these four oversized: their bytes. Fields that are not
--      stored are missing.
-- Where runs are tracked, the JSON also has next_resend: when beat is to send the next run that waits; and each entry
--      failures, buffered, active: keys of runs, and is_abandoned: '1' where another claim took it and never
--      committed it.
local schedule, lock, id, receipt, format = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local zone, before, beats, pause = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local token, claim_id, lease, limit, newest, prefix = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local new_id, version, most, enough, beat, runs = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12]

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
write_beat(beats, beat)
local passed_before = beat ~= '' and aside(pass, prefix .. ':passed') or nil
if text_at(pause) then return {'PAUSED', tostring(redis.call('PTTL', pause)), server_time(), passed_before} end

local now, lease_end = server_time(), server_time(lease)
local found, missing, claimed, taken = {}, {}, {}, {}
local bytes = 0
redis.call('SET', id, new_id, 'NX')

local function entry_at(name)
  if not is_name(name) then return nil end
  local read_entry = runs and read_with_runs or read_bounded
  local entry = read_entry(prefix .. name, most, 0, 'fire_time', 'look_at', 'is_due_now')
  if not (entry.definition or entry.oversized) then return nil end
  return runs and with_active(entry, prefix) or entry
end

local function resolve(member, score)
  local is_key = string.sub(member, 1, #prefix) == prefix
  local entry = is_key and entry_at(string.sub(member, #prefix + 1)) or entry_at(member)
  bytes = bytes + (entry and entry.size or #member)
  if entry then
    found[#found + 1] = {member, score, entry}
  else
    missing[#missing + 1] = member
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
  redis.call('ZADD', schedule, lease_end, entry.key)
  entry.look_at, entry.size = nil, nil
  taken[entry.key] = true
  claimed[#claimed + 1] = entry
end

local due = redis.call('ZRANGEBYSCORE', schedule, 0, now, 'WITHSCORES', 'LIMIT', 0, limit)
local replaced = #due < 2 * limit and 0 or newest
local young = redis.call('ZREVRANGEBYSCORE', schedule, now, 0, 'WITHSCORES', 'LIMIT', 0, replaced)
for i, text in ipairs(young) do
  due[#due - #young + i] = text
end
for i = 1, #due, 2 do
  if bytes < tonumber(enough) then resolve(due[i], due[i + 1]) end
end
if #found > 0 then
  need_rights(receipt, 'HGET', 'ZSCORE', 'ZREM')
  redis.call('SET', receipt, lease_end, 'PX', math.ceil(lease * 1000))
end
for _, item in ipairs(found) do
  take(unpack(item))
end
local reply = {
  now = now,
  schedule_id = text_at(id) or '',
  zone = text_at(zone) or '',
  missing = missing,
  entries = claimed,
  passed = passed_before,
}
reply.next_look = redis.call('ZRANGEBYSCORE', schedule, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
reply.next_resend = runs and next_resend(prefix)
return {'CLAIMED', cjson.encode(reply)}
