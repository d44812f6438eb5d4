-- What a claim also returns where runs are tracked. It stands in front of claim.lua.

-- Return what read_bounded does, with the failures in a row of an entry, its buffered run, and whether another claim
-- took it and never committed it. To read_bounded these fields and the counts of runs are `others`, so that it asks for
-- no missing field.
local function read_with_runs(key, limit, others, ...)
  local own = try('HMGET', key, 'claim', 'failures', 'buffered', 'ends', 'tracebacks', unpack(COUNTED)) or {}
  for _, text in ipairs(own) do
    if text then others = others + 1 end
  end
  local entry = read_bounded(key, limit, others, ...)
  local claim, failures, buffered = unpack(own)
  entry.is_abandoned = claim and '1' or nil
  entry.buffered = buffered and #buffered <= 4096 and buffered or nil
  entry.failures = failures and #failures <= 20 and failures or nil
  return entry
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
