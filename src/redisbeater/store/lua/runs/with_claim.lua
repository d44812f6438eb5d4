-- What a claim returns besides, where runs are tracked. It stands in front of claim.lua.

-- Return an entry with its failures in a row, its buffered run, keys of at most three active ones, and whether another claim
-- took it and never committed it.
local function with_runs(entry, prefix)
  local stored = read(entry.key, 'claim', 'failures', 'buffered')
  local active = active_of(prefix, string.sub(entry.key, #prefix + 1), 3)
  entry.failures, entry.buffered, entry.is_abandoned = stored.failures, stored.buffered, stored.claim and '1'
  entry.active = #active > 0 and active or nil
  return entry
end

-- Return when beat is to send the next run; nil: none is to be sent.
local function next_resend(prefix) return (try('ZRANGE', prefix .. ':resend', 0, 0, 'WITHSCORES') or {})[2] end
