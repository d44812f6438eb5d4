-- What a claim also returns where runs are tracked. It stands in front of claim.lua.

-- Add what a claim reads of an entry besides, each a field of its own.
local function append_fields_of_runs(fields) append(fields, 'claim', 'failures', 'buffered') end

-- Add to an entry the failures in a row, its buffered run, and whether another claim took it and never committed it.
local function add_runs(entry, claim, failures, buffered)
  entry.is_abandoned = claim and '1' or nil
  entry.buffered = buffered and #buffered <= 4096 and buffered or nil
  entry.failures = failures and #failures <= 20 and failures or nil
end

-- Return what read_bounded does, with that. To read_bounded these fields and the counts of runs are `others`, so that
-- it asks for no missing field.
local function read_with_runs(key, limit, others, ...)
  local own = try('HMGET', key, 'claim', 'failures', 'buffered', 'ends', 'tracebacks', unpack(COUNTED)) or {}
  for _, text in ipairs(own) do
    if text then others = others + 1 end
  end
  local entry = read_bounded(key, limit, others, ...)
  add_runs(entry, own[1], own[2], own[3])
  return entry
end

-- Tell whether a claim returns anything of the runs of an entry.
local function has_runs(entry)
  return entry.is_abandoned or entry.buffered or entry.failures or entry.active
end

-- Return an entry with keys of at most three of its active runs.
local function with_active(entry, prefix)
  local active = active_of(prefix, string.sub(entry.key, #prefix + 1), 3)
  entry.active = #active > 0 and active or nil
  return entry
end

-- Return when beat is to send the next run; nil: none is to be sent.
local function next_resend(prefix)
  return (try('ZRANGE', prefix .. ':resend', 0, 0, 'WITHSCORES') or {})[2]
end
