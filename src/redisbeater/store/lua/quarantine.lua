-- Quarantine claimed entries: make them dormant, and list them as broken with the reasons.
--
-- Where the definition was replaced since, the new one deserves a try: the entry becomes due again at once instead, or
-- at the score that was set since. What an earlier try wrote before it failed counts as written. When the script is
-- executed twice, because its reply was lost, the second time writes nothing and answers as the first.
--
-- KEYS[1] schedule    sorted set: entry key -> UNIX seconds
-- KEYS[2] broken      hash: entry name -> why it is quarantined
-- KEYS[3] failing     sorted set: entry key -> the fire time that it owes
-- KEYS[4] answer      string: what this call has answered, kept for a minute
-- KEYS[5..] entries   hashes: the claimed entries
-- ARGV[1] claim_id    text: the claim under which they were read
-- ARGV[2] reports     JSON: for each entry {name, report: why and since when, as JSON text, log: a line of its log;
--                     missing: none, definition: SHA-1 of the one that is broken; missing: it was not read, so that it
--                     is not compared}
-- ARGV[3] log         text: the key of a log, without the name of its entry
-- ARGV[4] lines       number of lines that a log keeps
-- Returns a word for each entry: 'QUARANTINED', 'EDITED': the definition was replaced, or 'FENCED': the claim is not
--      ours any more
local schedule, broken, failing, answer = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local claim_id, reports, log, lines = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local function is_edited(entry, digest)
  if not digest then return false end
  return redis.sha1hex(read(entry, 'definition').definition or '') ~= digest
end

local function quarantine(entry, new)
  local stored = read(entry, 'claim', 'fire_time', 'look_at', 'is_due_now')
  local is_written = try('HGET', broken, new.name) == new.report
  if stored.claim ~= claim_id then return is_written and 'QUARANTINED' or 'FENCED' end
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
  if new.log then add_to_log(log .. new.name, lines, new.log) end
  return 'QUARANTINED'
end

local given = given_answer(answer)
if given then return given end
local outcomes, news = {}, cjson.decode(reports)
for i = 5, #KEYS do
  outcomes[#outcomes + 1] = quarantine(KEYS[i], news[i - 4])
end
return answer_once(answer, outcomes)
