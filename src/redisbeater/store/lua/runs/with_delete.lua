-- What the deletion of an entry does with its runs, where they are tracked. It stands in front of delete.lua.

local tracking = cjson.decode(ARGV[9])
local prefix, limit, retention = tracking.prefix, tracking.limit, tracking.retention

-- Revoke what is buffered of an entry, and delete its history. Runs that are active go on; their records expire when
-- they end.
local function forget_runs(name)
  local index = prefix .. ':runs:' .. name
  revoke_buffered(prefix, limit, retention, name)
  for _, key in ipairs(try('ZRANGE', index, 0, 9999) or {}) do
    local _, is_listed = is_active(prefix, key, 0)
    if not is_listed then delete_run(prefix, key) end
  end
  try('ZREMRANGEBYRANK', index, 0, -1)
end
