-- Look at the lists of what is wrong with a schedule, and return what no open incident stands for, and which open ones
-- may be over. Nothing is written. One call looks at so many members, or returns 50 rows or a few more; the next one
-- goes on behind them.
--
-- The lists, entries and runs are found by the key of the schedule, and share its slot.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] open_ones  sorted set: kind, blank, entry -> when it was opened, negative once somebody has acknowledged it
-- KEYS[3] current    hash: kind, blank, entry -> id of an incident
-- ARGV[1] incident   text: the key of an incident, without its id
-- ARGV[2] part       number of the list that the call begins with, from 1 on
-- ARGV[3] start      text: where in that list; '0': at its begin
-- ARGV[4] number     of members that are looked at
-- ARGV[5] since      UNIX seconds: runs that ended badly before are left out
-- ARGV[6] late       seconds that an entry may be due
-- ARGV[7] unsent     seconds for which a run may fail to be sent
-- ARGV[8] few        number of the newest runs of an entry that are read
-- Returns JSON {now, part, start: where the next call begins; no part: this was the last one, rows, and from a call
--      that begins with the first list late: {how many entries, the earliest fire time, the key of its entry} unless
--      the schedule is paused}. A row begins with a word, and a name. ended: a run that ended badly, {name, is_open,
--      is_listed, ends, run}; failed: {name, since, ends, runs}; waiting: {name, since, id of the run, queue};
--      not_sent: {name, since, error}; broken: {name, report}; overdue: {name, since}; over: {kind, name}; dormant: the
--      same, its entry is not to run. A run is {id, when it ended, state, error, worker, holder, release}
local schedule, open_ones, current = KEYS[1], KEYS[2], KEYS[3]
local incident, part, start, number, since = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local late, unsent, few = ARGV[6], ARGV[7], ARGV[8]

local now, base, rows = server_time(), string.sub(schedule, 1, -10), {}

local function add(...) rows[#rows + 1] = {...} end

-- Tell whether there are enough rows for one reply.
local function is_full() return #rows >= 50 end

-- Return the members of a list if they are few enough to be read at once, which is much faster than to ask for each;
-- else nil.
local function members_of(list)
  if (try('ZCARD', list) or 0) > 5000 then return nil end
  local all = try('ZRANGEBYSCORE', list, '-inf', '+inf')
  return all or {}
end

local function as_set(all)
  local found = {}
  for i = 1, #all do
    found[all[i]] = true
  end
  return found
end

local opened_list, failed_list = members_of(open_ones), members_of(base .. ':failed')
local all_failed = failed_list and as_set(failed_list)
local all_open -- as a set, once it is asked for

-- Nearly all that are open have failed: the keys of their entries, by what is open, and back.
local key_of, open_failures = {}, {}
for i = 1, #(opened_list or {}) do
  local place = opened_list[i]
  if string.sub(place, 1, 7) == 'failed ' then
    local key = base .. string.sub(place, 8)
    key_of[place], open_failures[key] = key, true
  end
end

local function is_in(list, all, member)
  if all then return all[member] or false end
  local score = try('ZSCORE', list, member)
  return score and true or false
end

local function is_open(kind, name)
  if opened_list and kind == 'failed' then return open_failures[base .. name] or false end
  all_open = all_open or opened_list and as_set(opened_list)
  return is_in(open_ones, all_open, kind .. ' ' .. name)
end

local function has_failed(name) return is_in(base .. ':failed', all_failed, base .. name) end

-- Return so many members of a list from a place on. ZRANGE would be a right that a beat without runs does not need.
local function members(list, all, from, count)
  if all then return {unpack(all, from + 1, math.min(from + count, #all))} end
  local found = try('ZRANGEBYSCORE', list, '-inf', '+inf', 'LIMIT', from, count)
  return found or {}
end

local function name_of(key) return string.sub(key, 1, #base) == base and string.sub(key, #base + 1) or '' end

-- Return a run as a row has it, and its fields; nil where the key holds none.
local function row_of(key)
  local names = {'finished_at', 'state', 'error', 'worker', 'holder', 'release'}
  local run = read(key, 'name', 'kind', 'queue', unpack(names))
  if not is_run(run) then return nil end
  local row = {string.sub(key, #base + 6)}
  for _, field in ipairs(names) do
    row[#row + 1] = string.sub(run[field] or '', 1, 4096)
  end
  return row, run
end

-- Tell whether the end of a run says something about its entry.
local function counts(run) return LETTERS[run.state] and run.finished_at and run.kind ~= 'backfill' end

-- Return the newest runs of an entry that ended since its last good end, the newest first.
local function bad_runs(name)
  local found = {}
  for _, key in ipairs(try('ZREVRANGE', base .. ':runs:' .. name, 0, few - 1) or {}) do
    local row, run = row_of(key)
    if row and counts(run) then
      if is_success(run.state) then break end
      found[#found + 1] = row
    end
  end
  return found
end

-- Return when the last incident of an entry that failed has ended; 0: it had none.
local function closed_at(name)
  local id = try('HGET', current, 'failed ' .. name)
  return id and tonumber(read(incident .. id, 'closed').closed or 0) or 0
end

-- Add runs that ended badly, and say whether their entry has failed since. Those before the end of its last incident
-- were told with that one: they must not count in a row with later ones.
local function ended(from, count)
  local keys = try('ZRANGEBYSCORE', base .. ':failures', since, '+inf', 'LIMIT', from, count) or {}
  for place, key in ipairs(keys) do
    if is_full() then return place - 1 end
    local row, run = row_of(key)
    if row and counts(run) and not is_success(run.state) then
      local is_told, is_listed = is_open('failed', run.name), has_failed(run.name)
      if is_told or is_listed or (tonumber(run.finished_at) or 0) > closed_at(run.name) then
        add('ended', run.name, is_told, is_listed, read(base .. run.name, 'ends').ends or '', row)
      end
    end
  end
  return #keys
end

local function failed(from, count)
  local listed = members(base .. ':failed', failed_list, from, count)
  for place, key in ipairs(listed) do
    if is_full() then return place - 1 end
    local name = not open_failures[key] and name_of(key)
    if name and not is_open('failed', name) and is_name(name) then
      local since_when = try('ZSCORE', base .. ':failed', key) or now
      add('failed', name, since_when, read(key, 'ends').ends or '', bad_runs(name))
    end
  end
  return #listed
end

local function waiting(from, count)
  local seen = {}
  local listed = try('ZRANGEBYSCORE', base .. ':waiting', 0, now - 1, 'WITHSCORES', 'LIMIT', from, count) or {}
  for i = 1, #listed, 2 do
    if is_full() then return (i - 1) / 2 end
    local row, run = row_of(listed[i])
    if row and run.state == 'SENT' and not seen[run.name] and not is_open('waiting', run.name) then
      seen[run.name] = true
      add('waiting', run.name, listed[i + 1], row[1], run.queue or '')
    end
  end
  return #listed / 2
end

local function not_sent(from, count)
  local listed = members(base .. ':failing', nil, from, count)
  for place, key in ipairs(listed) do
    if is_full() then return place - 1 end
    local name, stored = name_of(key), read(key, 'failing_since', 'last_error')
    local is_long = instant(stored.failing_since) and now - stored.failing_since >= tonumber(unsent)
    if is_name(name) and is_long and not is_open('not_sent', name) then
      add('not_sent', name, stored.failing_since, string.sub(stored.last_error or '', 1, 4096))
    end
  end
  return #listed
end

local function overdue(from, count)
  local listed = try('ZRANGEBYSCORE', base .. ':promises', '-inf', now, 'WITHSCORES', 'LIMIT', from, count) or {}
  for i = 1, #listed, 2 do
    if is_full() then return (i - 1) / 2 end
    local name = name_of(listed[i])
    if not is_open('overdue', name) then add('overdue', name, listed[i + 1]) end
  end
  return #listed / 2
end

local OF_ENTRIES = {failed = true, waiting = true, not_sent = true, overdue = true}
local KNOWN = {failed = true, waiting = true, not_sent = true, overdue = true, broken = true, late = true}

-- Return for how long something may be wrong, of an incident that is open.
local function term_of(kind, place)
  if kind ~= 'waiting' and kind ~= 'late' then return nil end
  local id = try('HGET', current, place)
  return read(incident .. (id or ''), 'within').within
end

local function goes_on(kind, name, place)
  if kind == 'failed' then return has_failed(name) end
  return wrong_since(base, kind, name, term_of(kind, place))
end

-- Return the scores of entries by their keys, false for one that is not there. A user without the right to ask for many
-- at once asks for each.
local function scores_of(keys)
  local found = {}
  for first = 1, #keys, 1000 do
    local last = math.min(first + 999, #keys)
    local scores = redis.pcall('ZMSCORE', schedule, unpack(keys, first, last))
    for i = first, last do
      found[keys[i]] = scores.err and redis.call('ZSCORE', schedule, keys[i]) or scores[i - first + 1] or false
    end
  end
  return found
end

local function opened(from, count)
  local listed = members(open_ones, opened_list, from, count)
  local of, keys = {}, {}
  for rank, place in ipairs(listed) do
    local key = key_of[place]
    if not key then
      local kind, name = parts_of(place)
      key = OF_ENTRIES[kind] and name ~= '' and base .. name
    end
    of[rank] = key
    if key then keys[#keys + 1] = key end
  end
  local scores = scores_of(keys)
  for rank, place in ipairs(listed) do
    if is_full() then return rank - 1 end
    local key = of[rank]
    local score = key and scores[key]
    if key and score and key_of[place] and is_in(base .. ':failed', all_failed, key) then
      if string.byte(score) == 45 then add('dormant', parts_of(place)) end -- a minus: it is not to run
    else
      local kind, name = parts_of(place)
      if not KNOWN[kind] then
        kind = nil -- another part of beat, or a newer one, has opened it
      elseif key and not score or not goes_on(kind, name, place) then
        add('over', kind, name)
      elseif score and string.byte(score) == 45 then
        add('dormant', kind, name)
      end
    end
  end
  return #listed
end

-- Look at one page of the reports on broken entries; return where the next one begins.
local function broken(cursor)
  local page = try('HSCAN', base .. ':broken', cursor, 'COUNT', 200) or {'0', {}}
  for i = 1, #page[2], 2 do
    local name = string.gsub(page[2][i], '^:static:', '')
    if not is_open('broken', name) then add('broken', name, string.sub(page[2][i + 1], 1, 4096)) end
  end
  return page[1]
end

local LISTS, rest = {ended, failed, waiting, not_sent, overdue, opened}, tonumber(number)
local reply = {now = now, rows = rows}
if part == '1' and start == '0' and not text_at(base .. ':pause') then
  local count, oldest, _, key = count_late(schedule, base .. ':failing', tonumber(late), 1000)
  reply.late = {count, oldest, key}
end
local at, from = tonumber(part), start
while at <= #LISTS and rest > 0 and not is_full() do
  local count = LISTS[at](tonumber(from), rest)
  from, rest = tonumber(from) + count, rest - count
  if rest > 0 and not is_full() then at, from = at + 1, 0 end
end
if at > #LISTS and rest > 0 and not is_full() then
  from = broken(from)
  if from == '0' then at = at + 1 end
end
if at <= #LISTS + 1 then reply.part, reply.start = tostring(at), tostring(from) end
return cjson.encode(reply)
