-- Quarantine claimed entries: make them dormant, and list them as broken with the reasons.
--
-- When the definition of one was replaced since, the new one deserves a try: the entry comes up again at once instead, or
-- when the score says that was set since.
--
-- KEYS[1] schedule    sorted set: entry key -> UNIX seconds
-- KEYS[2] broken      hash: entry name -> why it is quarantined
-- KEYS[3] failing     sorted set: entry key -> the fire time that it owes
-- KEYS[4..] entries   hashes: the claimed entries
-- ARGV[1] claim_id    text: the claim under which they were read
-- ARGV[2] reports     JSON: for each entry {name, report: why and since when, as JSON text, definition: SHA-1 of the one
--                     that is broken; missing: it was not read, so that it is not compared}
-- Returns a word for each entry: 'QUARANTINED', 'EDITED': the definition was replaced, or 'FENCED': the claim is not ours
--      any more
local schedule, broken, failing = KEYS[1], KEYS[2], KEYS[3]
local claim_id, reports = ARGV[1], ARGV[2]

local function is_edited(entry, digest)
  if not digest then return false end
  return redis.sha1hex(read(entry, 'definition').definition or '') ~= digest
end

local function quarantine(entry, new)
  local stored = read(entry, 'claim', 'fire_time', 'look_at', 'is_due_now')
  if stored.claim ~= claim_id then return 'FENCED' end
  if is_edited(entry, new.definition) then
    if is_later_look(redis.call('ZSCORE', schedule, entry), stored) then
      restore(schedule, entry, stored)
    else
      clear_claim(entry)
    end
    return 'EDITED'
  end
  clear_claim(entry)
  clear_failure(failing, entry)
  redis.call('ZADD', schedule, instant(stored.fire_time) and '-' .. stored.fire_time or '-1', entry)
  try('HSET', broken, new.name, new.report)
  return 'QUARANTINED'
end

local outcomes, news = {}, cjson.decode(reports)
for i = 4, #KEYS do outcomes[#outcomes + 1] = quarantine(KEYS[i], news[i - 3]) end
return outcomes
