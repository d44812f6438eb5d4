-- Functions that several scripts share. The loader puts them in front of every script.

local clock, now_text -- the server's time, which stands still during a script, and the same as text

-- Return the server's time, or what it will be in so many seconds: UNIX seconds with six decimals, as text.
local function server_time(later)
  clock = clock or redis.call('TIME')
  if later then return string.format('%.6f', clock[1] + clock[2] / 1000000 + later) end
  now_text = now_text or string.format('%d.%06d', clock[1], clock[2])
  return now_text
end

-- Return the reply of a command; nil where its key holds another type. Other errors end the script and name the
-- command: a missing right is one.
local function try(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then error(command .. ': ' .. reply.err) end
end

-- Return an error as text. Newer servers raise a table.
local function error_of(problem)
  if type(problem) ~= 'table' then return tostring(problem) end
  return string.format('%s user_script:%s', problem.err, problem.line or 1)
end

local refused -- the first error of what was done aside; nil: there is none

-- Do what nothing else depends on, such as a line of a log or a count, and return its result; nil where it is refused:
-- the script goes on, and tells that with its reply.
local function aside(act, ...)
  local is_done, result = pcall(act, ...)
  if is_done then return result end
  refused = refused or error_of(result)
end

-- Remove a key, and ask with it for the commands that write entries, and for others: where the right to one is missing,
-- the script must end before a part of an entry is written, or before its run is sent. Nothing is written.
local function need_rights(key, ...)
  redis.call('DEL', key)
  redis.call('HDEL', key, '')
  redis.call('ZADD', key, 'XX', 0, '')
  for _, command in ipairs({...}) do
    try(command, key, '')
  end
end

-- Return the text of a key, or its first 200 characters: beat writes none that is longer; nil where there is none, or
-- where the key holds another type.
local function text_at(key)
  local text = try('GET', key)
  return text and string.sub(text, 1, 200) or nil
end

-- Return the number of the newest change of a calendar; '' where there is none, and without a right to that key.
local function newest_of_calendars(prefix)
  local number = redis.pcall('HGET', prefix .. ':calendars', ':version')
  return type(number) == 'string' and string.sub(number, 1, 20) or ''
end

-- Tell whether an entry can have a name: keys of beat's own begin with a colon, and no program writes longer names.
local function is_name(name) return name ~= '' and #name <= 512 and string.sub(name, 1, 1) ~= ':' end

-- Return fields of an entry by name; a field that is missing is nil. A key of another type has no fields.
local function read(entry, ...)
  local values = try('HMGET', entry, ...) or {}
  local fields = {}
  for i, name in ipairs({...}) do
    fields[name] = values[i] or nil
  end
  return fields
end

-- Tell whether a key is that of an entry of this schedule: it is a member, or the bare name is; or the name in its
-- definition is what the key has behind our prefix, which it can be for one prefix only. Our own saves and RedBeat
-- store that name. A definition of more bytes than `most`, 1 MB by default, is not read.
local function is_own(schedule, key, most)
  local name = string.sub(key, #schedule - 8) -- the key of the schedule is the prefix and ':schedule'
  if try('ZSCORE', schedule, key) or try('ZSCORE', schedule, name) then return true end
  if (try('HSTRLEN', key, 'definition') or 0) > tonumber(most or 1000000) then return false end
  local is_json, definition = pcall(cjson.decode, try('HGET', key, 'definition') or '')
  return is_json and type(definition) == 'table' and definition.name == name
end

-- Tell whether a key is below the prefix of another schedule, which is longer than ours. That one has entries, had some
-- that were deleted, or a beat.
local function is_below_another(schedule, key)
  local colon = string.find(key, ':', #schedule - 8, true)
  while colon and colon <= #schedule + 512 do
    for _, word in ipairs({':schedule', ':deleted', ':id'}) do
      if redis.call('TYPE', string.sub(key, 1, colon) .. word).ok ~= 'none' then return true end
    end
    colon = string.find(key, ':', colon + 1, true)
  end
  return false
end

-- Return definition, meta, recorded_run, skipped and the named fields of an entry, its `key`, and as `size` the bytes
-- of those four. Above the limit the four are not read: `oversized` has their bytes, and the size is 0. Any other field
-- that is longer than beat writes it counts as missing. `others`: how many stored fields are none of these; once all
-- fields but those were found, the remaining ones are not asked for.
local function read_bounded(entry, limit, others, ...)
  local names = {'definition', 'meta', 'recorded_run', 'skipped', ...}
  local count = (try('HLEN', entry) or 0) - others
  local found, texts, size = 0, 0, 0
  for i, name in ipairs(names) do
    local length = found < count and redis.call('HSTRLEN', entry, name) or 0
    if i == 1 and length == 0 then count = count + 1 end
    if i == 1 or length > 0 and (i <= 4 or length <= 4096) then found, names[found + 1] = found + 1, name end
    if i <= 4 then texts, size = found, size + length end
  end
  local first = size > tonumber(limit) and texts + 1 or 1
  local fields = first <= found and read(entry, unpack(names, first, found)) or {}
  fields.key, fields.size = entry, first == 1 and size or 0
  if first > 1 then fields.oversized = size end
  return fields
end

-- Tell whether an origin is that of a static entry: an application and a digest. That of a file's entry begins with
-- 'file:'.
local function is_static_origin(origin) return (origin or '') ~= '' and string.sub(origin, 1, 5) ~= 'file:' end

-- Return a stored fire time as a number; nil where another program wrote something else. A sign is refused, because a
-- dormant score is a fire time with a minus in front.
local function instant(text)
  local seconds = string.match(text or '', '^%d[%d.e+-]*$') and tonumber(text)
  return seconds and seconds >= 0 and seconds < math.huge and seconds or nil
end

-- Tell whether the score only says when beat looks again: at the end of a lease, for another try, or for the jitter.
-- Then the stored fire time is the one to run. A score that another program has set since is itself the fire time.
local function is_later_look(score, fields)
  if not (score and fields.look_at) then return false end
  return tonumber(score) == tonumber(fields.look_at) and instant(fields.fire_time) ~= nil
end

-- Remove the claim and the fire time that was stored with it, and further fields.
local function clear_claim(entry, ...) redis.call('HDEL', entry, 'claim', 'fire_time', 'look_at', 'is_due_now', ...) end

-- Remove what was recorded about tries that failed. Return whether there were any.
local function clear_failure(failing, entry)
  try('ZREM', failing, entry)
  return redis.call('HDEL', entry, 'last_error', 'tries', 'failing_since') > 0
end

-- Schedule a claimed entry for the fire time that it had.
local function restore(schedule, entry, fields)
  redis.call('ZADD', schedule, fields.fire_time, entry)
  clear_claim(entry)
  if fields.is_due_now then
    redis.call('HSET', entry, 'fire_time', fields.fire_time, 'look_at', fields.fire_time, 'is_due_now', '1')
  end
end

-- Store a new meta, if there is one, with the last run that beat recorded; nil: none. `skipped`: that of a backup.
local function write_meta(entry, meta, recorded_run, skipped)
  if not meta then return end
  if skipped then redis.call('HSET', entry, 'skipped', skipped) end
  if recorded_run then return redis.call('HSET', entry, 'meta', meta, 'recorded_run', recorded_run) end
  redis.call('HSET', entry, 'meta', meta)
  redis.call('HDEL', entry, 'recorded_run')
end

-- Return the SHA-1 by which a change of definition, meta or recorded run is noticed; '' when none of them is stored. Of
-- an oversized entry it is the size.
local function digest(fields)
  if fields.oversized then return 'oversized ' .. fields.oversized end
  if not (fields.definition or fields.meta) then return '' end
  local texts = {fields.definition or '', fields.meta or '', fields.recorded_run or ''}
  return redis.sha1hex(table.concat(texts, '\n'))
end

-- Return the last time of a line of a log, its count, its first time and its text; nil: another program wrote it.
local function read_line(line) return string.match(line, '^(%S+) (%d+) (%S+) (.*)$') end

-- Add a line to a log, newest first: `<last> <count> <first> <text>`, the text being a word and JSON. A line that says
-- what the newest one says is folded into it: the counts are added; the first time and the oldest `was` stay. Missing
-- times are now. The log no longer expires, as that of a deleted entry did.
local function add_to_log(key, most, text, count, first, last)
  local now = server_time()
  local newest = try('LINDEX', key, 0)
  if newest == nil then return end
  local _, newest_count, newest_first, newest_text = read_line(newest or '')
  local function said(full) return string.match(full or '', '^(.-),"was":') or full end
  if said(newest_text) == said(text) then
    count = newest_count + (count or 1)
    try('LSET', key, 0, string.format('%s %.0f %s %s', last or now, count, newest_first, newest_text))
  else
    try('LPUSH', key, string.format('%s %.0f %s %s', last or now, count or 1, first or now, text))
    try('LTRIM', key, 0, most - 1)
  end
  try('PERSIST', key)
end

-- Store the line of a beat, and remove lines that were not written for a minute. The text is the beat's token, the
-- seconds since when it has its role, and JSON, which gets both times in front; an empty text is nothing to write.
local function write_beat(beats, text)
  local token, seconds, json = string.match(text, '^(%S+) (%S+) {(.*)$')
  local now = server_time()
  local line = token and string.format('{"last_pass":%s,"since":%.6f,%s', now, now - seconds, json)
  if not line or not try('HSET', beats, token, line) then return end
  local lines = redis.call('HSCAN', beats, 0, 'COUNT', 100)[2]
  for i = 1, #lines, 2 do
    local written = string.match(lines[i + 1], '^{"last_pass": *([%d.]+)')
    if math.abs(now - (tonumber(written) or 0)) > 60 then redis.call('HDEL', beats, lines[i]) end
  end
end

-- Return the letters of the last ends of an entry's runs, oldest first, and when the last one was; empty and 0 where
-- another program wrote something else.
local function ends_of(stored)
  local letters, at = string.match(stored or '', '^(%u+) (%d+%.?%d*)$')
  if not letters or #letters > 30 or #at > 18 then return '', 0 end
  return letters, tonumber(at)
end

-- Return what the last ends of an entry's runs say: the name of the set that lists it; nil: nothing is wrong.
local function problem_of(letters)
  if letters == '' then return nil end
  if string.sub(letters, -1) ~= 'S' then return ':failed' end
  local _, successes = string.gsub(letters, 'S', '')
  return #letters - successes >= 3 and ':unstable' or nil
end

-- Store whether an entry is listed as failed, unstable, or neither, by its last ends; nil: there are none, as of one
-- that is deleted. Where it is listed so already, it stays so since the same time. `since`: since when one that comes
-- back was listed. Return since when it was listed so far; nil: it was not.
local function list_problem(schedule, entry, stored, since)
  local prefix = string.sub(schedule, 1, -10) -- the key of the schedule is the prefix and ':schedule'
  local letters, at = ends_of(stored)
  if instant(since) and tonumber(since) < at then at = since end
  local was
  local problem = problem_of(letters)
  for _, list in ipairs({':failed', ':unstable'}) do
    was = was or try('ZSCORE', prefix .. list, entry)
    if list == problem then
      try('ZADD', prefix .. list, 'NX', at, entry)
    else
      try('ZREM', prefix .. list, entry)
    end
  end
  return was or nil
end

-- Return how many entries were due more than so many seconds ago and have not run, the earliest time for which one of
-- them waits ('' without one), the server's time, and the key of that entry. The score of a failing entry is its next
-- try, but it waits since the fire time that it owes.
local function count_late(schedule, failing, seconds, most)
  local now = server_time()
  local limit = string.format('%.6f', now - seconds)
  local count = redis.call('ZCOUNT', schedule, 0, limit)
  local first = redis.call('ZRANGEBYSCORE', schedule, 0, limit, 'WITHSCORES', 'LIMIT', 0, 1)
  local key, oldest = first[1] or '', first[2] or ''
  local owed = try('ZRANGEBYSCORE', failing, 0, limit, 'WITHSCORES', 'LIMIT', 0, most) or {}
  for i = 1, #owed, 2 do
    local score = tonumber(redis.call('ZSCORE', schedule, owed[i]) or -1)
    if score >= 0 and (oldest == '' or tonumber(owed[i + 1]) < tonumber(oldest)) then
      key, oldest = owed[i], owed[i + 1]
    end
    if score > tonumber(limit) then count = count + 1 end
  end
  return count, oldest, now, key
end

-- Return the kind and the entry of what incidents stand for; nil: another thing is kept under that name.
local function parts_of(place) return string.match(place, '^(%S+) (.*)$') end

-- Return how many runs of an entry have ended badly so far; `...`: its fields that count them.
local function bad_ends(entry, ...)
  local sum = 0
  for _, text in ipairs(try('HMGET', entry, ...) or {}) do
    sum = sum + (tonumber(text or 0) or 0)
  end
  return sum
end

-- Return how many bad ends an incident of an entry has by now: as many as are stored, or more. `base`: how many the
-- entry had before it; nil: the incident does not count them.
local function count_bad_ends(entry, count, base, ...)
  count, base = tonumber(count) or 0, tonumber(base)
  return base and math.max(count, bad_ends(entry, ...) - base) or count
end

-- Return since when the lists of a schedule say that something of a kind is wrong with an entry, or with the schedule
-- itself; nil: they do not. `within`: for how many seconds a run may wait, or an entry be due.
local function wrong_since(prefix, kind, entry, within)
  if kind == 'failed' then return try('ZSCORE', prefix .. ':failed', prefix .. entry) or nil end
  local now, waiting = server_time(), prefix .. ':waiting'
  local function waits_since(before)
    local set, cursor, pages = prefix .. ':active:' .. entry, '0', 0
    if entry == '' then return (try('ZRANGEBYSCORE', waiting, 0, before, 'WITHSCORES', 'LIMIT', 0, 1) or {})[2] end
    repeat
      local page = try('SSCAN', set, cursor, 'COUNT', 50) or {'0', {}}
      for _, key in ipairs(page[2]) do
        local since = try('ZSCORE', waiting, key)
        if since and tonumber(since) <= tonumber(before) then return since end
      end
      cursor, pages = page[1], pages + 1
    until cursor == '0' or pages >= 100
  end
  if kind == 'broken' then
    local broken = prefix .. ':broken'
    return (try('HEXISTS', broken, entry) == 1 or try('HEXISTS', broken, ':static:' .. entry) == 1) and now or nil
  end
  if kind == 'overdue' then
    local promised = try('ZSCORE', prefix .. ':promises', prefix .. entry)
    return promised and tonumber(promised) <= tonumber(now) and promised or nil
  end
  if kind == 'not_sent' then
    return try('ZSCORE', prefix .. ':failing', prefix .. entry) and read(prefix .. entry, 'failing_since').failing_since
  end
  local before = string.format('%.6f', now - (tonumber(within) or 0))
  if kind == 'waiting' then
    local is_reported = entry == '' and (try('HEXISTS', prefix .. ':totals', 'STARTED') == 1)
    return not is_reported and waits_since(before) or nil
  end
  if kind == 'late' and not text_at(prefix .. ':pause') then
    local count, oldest = count_late(prefix .. ':schedule', prefix .. ':failing', tonumber(within) or 0, 1000)
    return count > 0 and oldest or nil
  end
end

-- Return what the key of the format holds when it is newer than the version that beat writes, or no version at all.
-- Else return nil, and true when the key is to be set to that version.
local function newer_format(key, version)
  local stored = try('GET', key)
  if stored == nil then return 'a ' .. redis.call('TYPE', key).ok end
  if not stored then return nil, true end
  local number = string.match(stored, '^%d+$') and tonumber(stored)
  if not number or number > tonumber(version) then
    return stored == '' and 'an empty text' or string.sub(stored, 1, 40)
  end
  return nil, number < tonumber(version)
end

-- Return what this call answered when it was executed before and its reply was lost; nil: it was not, or has no key.
local function given_answer(key)
  local answer = key and try('GET', key)
  return answer and cjson.decode(answer)
end

-- Return an answer, and store it for a minute, which is longer than a call is retried; without a key only return it.
local function answer_once(key, answer)
  if key then try('SET', key, cjson.encode(answer), 'PX', 60000) end
  return answer
end
