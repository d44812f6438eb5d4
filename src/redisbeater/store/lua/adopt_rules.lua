-- Record the rules of zones by which all pending fire times are planned now, in one step and last: after a beat that
-- ends before this, the next one begins again.
--
-- KEYS[1] rules      hash: zone -> JSON: its rules; with a blank and an id behind it other ones, of marked entries
-- ARGV[1] fields     JSON: what is stored, by field
-- ARGV[2] dropped    JSON: the fields that are removed
-- ARGV[3] again      text: the field that says that another program has planned entries by other rules meanwhile
-- ARGV[4] new        JSON: the zones that had no rules before: another program may have stored its own meanwhile
-- Returns 'ADOPTED', or 'AGAIN': entries are to be planned again, and nothing was recorded
local rules = KEYS[1]
local fields, dropped, again, new = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if redis.call('HEXISTS', rules, again) == 1 then return 'AGAIN' end
for _, zone in ipairs(cjson.decode(new)) do
  if redis.call('HEXISTS', rules, zone) == 1 then return 'AGAIN' end
end
for field, text in pairs(cjson.decode(fields)) do redis.call('HSET', rules, field, text) end
for _, field in ipairs(cjson.decode(dropped)) do redis.call('HDEL', rules, field) end
return 'ADOPTED'
