-- Count what became of the runs of the entries of one page that were sent from a moment on, and what was skipped since.
--
-- Entry keys are read from the schedule, and the keys of histories and logs built from them: they share its slot by
-- construction.
--
-- KEYS[1] schedule  sorted set: entry key -> UNIX seconds
-- ARGV[1] cursor    of the page; 0: the first one
-- ARGV[2] page      number of entries, roughly
-- ARGV[3] prefix    text: what every key begins with
-- ARGV[4] since     UNIX seconds
-- ARGV[5] enough    number of runs after which the runs of no other entry of the page are read
-- ARGV[6] limit     number of runs that a history keeps
-- ARGV[7] late      seconds after its due time from which on a run of the schedule was sent late
-- Returns JSON: {cursor: of the next page, '0' after the last one; runs, states: {state -> number of runs}, late,
--      skipped: numbers, is_at_least: whether there were more than was kept or read}
local schedule = KEYS[1]
local cursor, page, prefix, since, enough, limit, late = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local found = {runs = 0, states = {}, late = 0, skipped = 0, is_at_least = false}

local function count_run(key)
  local run = read(key, 'state', 'kind', 'fire_time', 'due_at', 'sent_at')
  local state = string.sub(run.state or '', 1, 20)
  found.states[state] = (found.states[state] or 0) + 1
  local due_at, sent_at = instant(run.due_at or run.fire_time), instant(run.sent_at)
  if (run.kind or 'schedule') ~= 'schedule' or not due_at or not sent_at then return end
  if sent_at - due_at >= tonumber(late) then found.late = found.late + 1 end
end

local function count_runs(history)
  local most = math.min(tonumber(limit), enough - found.runs)
  local keys = most > 0 and try('ZREVRANGEBYSCORE', history, '+inf', since, 'LIMIT', 0, most) or {}
  for _, key in ipairs(keys) do
    count_run(key)
  end
  found.runs = found.runs + #keys
  if #keys >= most then found.is_at_least = true end
end

local function count_skipped(log)
  for place, line in ipairs(try('LRANGE', log, 0, 19) or {}) do
    local last, number, first, text = read_line(line)
    if string.sub(text or '', 1, 8) == 'skipped ' and (instant(last) or 0) >= tonumber(since) then
      local is_whole = (instant(first) or 0) >= tonumber(since)
      found.skipped = found.skipped + (is_whole and whole(number) or 1)
      if not is_whole or place == 20 then found.is_at_least = true end
    end
  end
end

local reply = redis.call('ZSCAN', schedule, cursor, 'COUNT', page)
for i = 1, #reply[2], 2 do
  local name = string.sub(reply[2][i], #prefix + 1)
  count_runs(prefix .. ':runs:' .. name)
  count_skipped(prefix .. ':log:' .. name)
end
found.cursor = reply[1]
return cjson.encode(found)
