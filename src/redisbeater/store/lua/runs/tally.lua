-- Count what became of the runs of several entries that were sent from a moment on, and fire times from then on that were
-- skipped. When enough runs were read, the other entries are left for another call.
--
-- KEYS[1..] entries  of each entry two keys: its history, a sorted set: run key -> when it was sent; its log, a list: lines,
--                    newest first
-- ARGV[1] since      UNIX seconds
-- ARGV[2] enough     number of runs
-- ARGV[3] limit      number of runs that a history keeps
-- ARGV[4] late       seconds: a run of the schedule that was sent so long after its fire time is late
-- Returns JSON: {entries: how many were read, runs, states: {state -> number of runs}, late, skipped: numbers, is_at_least: whether
--      there were more than was kept or read}
local since, enough, limit, late = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local found = {entries = 0, runs = 0, states = {}, late = 0, skipped = 0, is_at_least = false}

local function count_run(key)
  local run = read(key, 'state', 'kind', 'fire_time', 'sent_at')
  local state = string.sub(run.state or '', 1, 20)
  found.states[state] = (found.states[state] or 0) + 1
  local fire_time, sent_at = instant(run.fire_time), instant(run.sent_at)
  if (run.kind or 'schedule') ~= 'schedule' or not fire_time or not sent_at then return end
  if sent_at - fire_time >= tonumber(late) then found.late = found.late + 1 end
end

local function count_runs(history)
  local keys = try('ZRANGEBYSCORE', history, since, '+inf', 'LIMIT', 0, enough) or {}
  for _, key in ipairs(keys) do count_run(key) end
  found.runs = found.runs + #keys
  if #keys >= math.min(tonumber(limit), tonumber(enough)) then found.is_at_least = true end
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

for i = 1, #KEYS, 2 do
  if found.runs < tonumber(enough) then
    count_runs(KEYS[i])
    count_skipped(KEYS[i + 1])
    found.entries = found.entries + 1
  end
end
return cjson.encode(found)
