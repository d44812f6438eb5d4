-- Return active runs whose lease is over for some time, the oldest first, with what is needed to send them again.
-- Members that stand for no run are removed, so that they hold up nobody. When what was read is enough for one reply,
-- the others are left out.
--
-- KEYS[1] active     sorted set: run key -> when its lease ends, or until when it may wait for its start
-- ARGV[1] prefix     text: what every key of the schedule begins with
-- ARGV[2] limit      number of runs
-- ARGV[3] most       bytes of the longest payload
-- ARGV[4] enough     bytes of all payloads: then no other run is read
-- ARGV[5] over       seconds for which the lease is over
-- ARGV[6] passed     number of runs to pass over: they could not be judged
-- Returns JSON {runs}, for each its key, its fields and lease_end
local active = KEYS[1]
local prefix, limit, most, enough, over, passed = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local runs, bytes = {}, 0
local latest = over == '0' and server_time() or server_time(-over)
for _, key in ipairs(try('ZRANGEBYSCORE', active, '-inf', latest, 'LIMIT', passed, limit) or {}) do
  local run = bytes < tonumber(enough) and describe_run(prefix, key, most)
  if run then
    run.key = key
    runs[#runs + 1] = run
    bytes = bytes + #(run.payload or '')
  elseif bytes < tonumber(enough) then
    aside(try, 'ZREM', active, key)
  end
end
return cjson.encode({runs = runs})
