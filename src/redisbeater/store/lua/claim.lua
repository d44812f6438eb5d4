-- Take due entries for a while: the oldest first, each moved to the end of the lease, so that it comes up again by
-- itself, with the same fire time, when nobody commits it.
--
-- The score is the authority on the fire time, except where we put a later one there (the end of a lease, a retry,
-- jitter): then the fire time stands beside it, in the field fire_time: '<fire time> <that score> <claim id>', without the
-- last word when nobody has claimed it. A score of 0 means now, whatever the meta says; that fire time has a '*' behind it.
-- A member may be the bare name of an entry, which is corrected; one without a hash is reported. Entry keys are read from
-- the schedule, not passed in KEYS: they share its slot by construction (one hash tag in the prefix). All is read before
-- anything is written: on a cluster that moves the slot, the read of a key that has left fails the script.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] lock       string: token of the leader
-- KEYS[3] id         string: identity of this schedule, made here when it is missing
-- KEYS[4] receipt    string: the end of the lease of this claim, kept until then, for a recall
-- ARGV[1] token      text: what the lock must hold; empty: there is no lock
-- ARGV[2] claim_id   text: marks the entries that this claim takes
-- ARGV[3] lease      seconds
-- ARGV[4] limit      number of entries
-- ARGV[5] prefix     text: what every entry key begins with
-- ARGV[6] new_id     text: the identity if there is none yet
-- Returns {'CLAIMED', now, id, next look or '', {member without a hash, ...}, JSON of
--      [[key, definition, meta, fire time, '*' behind it: whatever the meta says; skipped or ''], ...]}
--      or {'FENCED'}: another beat holds the lock, or nobody; nothing was taken
local schedule, lock, id, receipt = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, claim_id, lease, limit, prefix, new_id = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local function words_of(text) return string.match(text or '', '^([^ *]+)(%*?) ([^ ]+) ?(.*)$') end

local function fields_of(key)
  if redis.call('TYPE', key).ok ~= 'hash' then return nil end
  local fields = redis.call('HMGET', key, 'definition', 'meta', 'fire_time', 'skipped')
  return fields[1] and fields
end

local function resolve(member)
  local fields = string.sub(member, 1, #prefix) == prefix and fields_of(member)
  if fields then return member, fields end
  return prefix .. member, fields_of(prefix .. member)
end

if token ~= '' and redis.call('GET', lock) ~= token then return {'FENCED'} end
redis.call('SET', id, new_id, 'NX')
local time = redis.call('TIME')
local now = string.format('%d.%06d', time[1], time[2])
local lease_end = string.format('%.6f', tonumber(now) + tonumber(lease))
local due = redis.call('ZRANGEBYSCORE', schedule, 0, now, 'WITHSCORES', 'LIMIT', 0, limit)
local found, missing, claimed, taken = {}, {}, {}, {}
for i = 1, #due, 2 do
  local key, fields = resolve(due[i])
  if fields then found[#found + 1] = {due[i], due[i + 1], key, fields} else missing[#missing + 1] = due[i] end
end
for _, item in ipairs(found) do
  local member, score, key, fields = unpack(item)
  if key ~= member then redis.call('ZREM', schedule, member) end
  if not taken[key] then
    local fire_time, star, look_at = words_of(fields[3])
    if tonumber(look_at) ~= tonumber(score) then fire_time, star = score, '' end
    if tonumber(fire_time) == 0 then fire_time, star = now, '*' end
    redis.call('HSET', key, 'fire_time', fire_time .. star .. ' ' .. lease_end .. ' ' .. claim_id)
    redis.call('ZADD', schedule, lease_end, key)
    claimed[#claimed + 1] = {key, fields[1], fields[2] or '', fire_time .. star, fields[4] or ''}
    taken[key] = true
  end
end
if #claimed > 0 then redis.call('SET', receipt, lease_end, 'PX', math.ceil(lease * 1000)) end
local head = redis.call('ZRANGEBYSCORE', schedule, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
return {'CLAIMED', now, redis.call('GET', id), head[2] or '', missing, cjson.encode(claimed)}
