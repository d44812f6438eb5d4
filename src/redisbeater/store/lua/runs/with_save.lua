-- What an edit does with the runs of an entry, where they are tracked. It stands in front of save.lua.

local tracking = cjson.decode(ARGV[8])

-- Revoke what is buffered of an entry that was disabled; forget the failures in a row of one that was enabled.
local function switch_runs(key, change)
  if change.switches == 'disabled' then
    revoke_buffered(tracking.prefix, tracking.limit, tracking.retention, change.name)
  elseif change.switches == 'enabled' then
    redis.call('HDEL', key, 'failures')
  end
end
