-- Functions that several scripts share. The loader puts them in front of every script.

-- Return the server's time: UNIX seconds with six decimals, as text.
local function server_time()
  local time = redis.call('TIME')
  return string.format('%d.%06d', time[1], time[2])
end

-- Tell whether a reply is the error of a key that holds another type. Other errors end the script: a missing right is one.
local function is_wrong_type(reply) return string.find(reply.err or '', 'WRONGTYPE', 1, true) ~= nil end

-- Return fields of an entry by name; a field that is missing is nil. A key of another type has no fields.
local function read(entry, ...)
  local values, fields = redis.pcall('HMGET', entry, ...), {}
  if values.err and not is_wrong_type(values) then redis.call('HMGET', entry, ...) end
  for i = 1, select('#', ...) do fields[select(i, ...)] = values[i] or nil end
  return fields
end

-- Return a stored fire time as a number; nil where another program wrote something else.
local function instant(text)
  local seconds = string.match(text or '', '^[%d.e+-]+$') and tonumber(text)
  return seconds and seconds >= 0 and seconds < math.huge and seconds or nil
end

-- Tell whether the score only says when beat looks again: at the end of a lease, for another try, or for the jitter. The
-- stored fire time then is the one to run. A score that another program has set since is the fire time itself.
local function is_later_look(score, fields)
  return score and tonumber(score) == tonumber(fields.look_at) and instant(fields.fire_time) ~= nil
end

-- Remove the claim and the fire time that was stored with it.
local function clear_claim(entry) redis.call('HDEL', entry, 'claim', 'fire_time', 'look_at', 'is_due_now') end

-- Schedule a claimed entry for the fire time that it had.
local function restore(schedule, entry, fields)
  clear_claim(entry)
  redis.call('ZADD', schedule, fields.fire_time, entry)
  if fields.is_due_now then
    redis.call('HSET', entry, 'fire_time', fields.fire_time, 'look_at', fields.fire_time, 'is_due_now', '1')
  end
end

-- Store a new meta, if there is one, with the last run that beat recorded; nil: none.
local function write_meta(entry, meta, recorded_run)
  if not meta then return end
  redis.call('HSET', entry, 'meta', meta)
  if recorded_run then
    redis.call('HSET', entry, 'recorded_run', recorded_run)
  else
    redis.call('HDEL', entry, 'recorded_run')
  end
end

-- Return the SHA-1 by which a change of definition, meta or recorded run is noticed; '' when none of them is stored.
local function digest(fields)
  if not (fields.definition or fields.meta) then return '' end
  local texts = {fields.definition or '', fields.meta or '', fields.recorded_run or ''}
  return redis.sha1hex(table.concat(texts, '\n'))
end

-- Return what the key of the format holds when it is newer than the version that beat writes, or no version at all. Else
-- return nil, and true when the key is to be set to that version.
local function newer_format(key, version)
  local stored = redis.pcall('GET', key)
  if type(stored) == 'table' then
    if not is_wrong_type(stored) then redis.call('GET', key) end
    return 'a ' .. redis.call('TYPE', key).ok
  end
  if not stored then return nil, true end
  local number = string.match(stored, '^%d+$') and tonumber(stored)
  if not number or number > tonumber(version) then return stored == '' and 'an empty text' or string.sub(stored, 1, 40) end
  return nil, number < tonumber(version)
end
