-- What a new name of an entry does with its runs, where they are tracked. It stands in front of rename.lua.

local tracking = cjson.decode(ARGV[12])

-- Tell whether a run of an entry is active, or waits.
local function has_active_run(entry, name)
  return read(entry, 'buffered').buffered or #active_of(tracking.prefix, name, 1) > 0
end

-- Give the runs of an entry its new name.
local function rename_runs(old_name, new_name)
  local index, set = tracking.prefix .. ':runs:', tracking.prefix .. ':active:'
  for _, key in ipairs(try('ZRANGE', index .. old_name, 0, 9999) or {}) do
    if read_run(key) then redis.call('HSET', key, 'name', new_name) end
  end
  for _, start in ipairs({index, set}) do
    if redis.call('EXISTS', start .. old_name) == 1 then redis.call('RENAME', start .. old_name, start .. new_name) end
  end
end
