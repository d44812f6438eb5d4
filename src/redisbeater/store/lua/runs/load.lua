-- Read runs at one instant. A field that is longer than beat writes it counts as missing. When what was read is enough
-- for one reply, the others are left out.
--
-- KEYS[1..] runs     hashes: the runs
-- ARGV[1] prefix     text: what every key of the schedule begins with
-- ARGV[2] payload    text: '1': with what is needed to send them again
-- ARGV[3] most       bytes of the longest payload
-- ARGV[4] enough     bytes of all payloads: then no other run is read
-- Returns JSON: for each run, until there is enough, its fields with lease_end and resend_at, false: there is none
local prefix, payload, most, enough = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local runs, bytes = {}, 0
for i = 1, #KEYS do
  if bytes < tonumber(enough) then
    local run = describe_run(prefix, KEYS[i], payload == '1' and most)
    runs[i] = run or false
    bytes = bytes + (run and #(run.payload or '') or 0)
  end
end
return cjson.encode({runs = runs})
