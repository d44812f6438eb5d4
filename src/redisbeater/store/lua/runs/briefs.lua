-- Read what a picture shows of the newest runs of several entries, at one instant, the newest of each first. A field
-- that is longer than beat writes it is cut.
--
-- KEYS[1..] histories  sorted sets: run key -> when it was sent
-- ARGV[1] limit        number of runs of each
-- Returns JSON: for each history rows of run key, state, fire_time, sent_at, started_at, seen_at, finished_at, queue,
--      and of the newest one that has an error that error; '' where one is missing
local limit = ARGV[1]

local fields = {'state', 'fire_time', 'sent_at', 'started_at', 'seen_at', 'finished_at', 'queue'}
local found = {}
for i = 1, #KEYS do
  local rows, error_text = {}, nil
  for place, key in ipairs(try('ZREVRANGE', KEYS[i], 0, limit - 1) or {}) do
    local row = try('HMGET', key, unpack(fields)) or {}
    rows[place] = {key}
    for field = 1, #fields do
      rows[place][field + 1] = string.sub(row[field] or '', 1, fields[field] == 'queue' and 250 or 40)
    end
    if not error_text and row[1] ~= 'SUCCESS' and row[6] then
      error_text = string.sub(try('HGET', key, 'error') or '', 1, 500)
      rows[place][9] = error_text
    end
  end
  found[i] = rows
end
return cjson.encode(found)
