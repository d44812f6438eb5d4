-- Create or change entries, each if it still is what its change was made on: definition, meta, fire time and claim.
--
-- An entry that is claimed at this moment keeps its claim, so that its run is recorded; a new score then stands, with '-'
-- in the place of the fire time, and without one the commit sets the next. The changes come as one text, because a client
-- packs a thousand small arguments slowly. Sent twice, the second time finds what the first has written, which is not what
-- the change was made on.
--
-- KEYS[1] schedule    sorted set: entry key -> UNIX seconds
-- KEYS[2] broken      hash: entry name -> why it was set aside
-- KEYS[3] statics     set: names of the static entries
-- KEYS[4..] entries   hashes: the entries
-- ARGV[1] channel     text: where beats listen for changes
-- ARGV[2] message     text: what they are told, once for all
-- ARGV[3] changes     JSON: for each entry a list: its name; the new definition; score, meta, origin: for a static entry,
--                     its application and what its code says, each '' keeps what is stored; then what was read, each ''
--                     where there was none: SHA-1 of definition, newline, meta; the fire time; the claim
-- Returns {position, word} of each entry that was not written, 'CONFLICT': it was changed meanwhile, or 'FOREIGN': the
--      key holds something that is no entry
local schedule, broken, statics = KEYS[1], KEYS[2], KEYS[3]
local channel, message, changes = ARGV[1], ARGV[2], ARGV[3]
local scores, names, static_names, unwritten = {}, {}, {}, {}

local function words_of(text) return string.match(text or '', '^([^ *]+)(%*?) ([^ ]+) ?(.*)$') end

local function refusal(entry, seen, planned, claim_id)
  local kind = redis.call('TYPE', entry).ok
  if kind == 'none' then return seen ~= '' and 'CONFLICT' end
  if kind ~= 'hash' then return 'FOREIGN' end
  local stored = redis.call('HMGET', entry, 'definition', 'meta', 'fire_time')
  local fire_time, _, look_at, claim = words_of(stored[3])
  local found, current = '', redis.call('ZSCORE', schedule, entry)
  if stored[1] or stored[2] then found = redis.sha1hex((stored[1] or '') .. '\n' .. (stored[2] or '')) end
  if current and tonumber(look_at) == tonumber(current) then current = fire_time end
  if found ~= seen or (current or '') ~= planned or (claim or '') ~= claim_id then return 'CONFLICT' end
end

local function save(entry, name, definition, score, meta, origin, seen, _, claim_id)
  redis.call('HSET', entry, 'definition', definition)
  if meta ~= '' then redis.call('HSET', entry, 'meta', meta) end
  if origin ~= '' then redis.call('HSET', entry, 'origin', origin) end
  if origin ~= '' then static_names[#static_names + 1] = name end
  if score ~= '' then scores[#scores + 1], scores[#scores + 2] = score, entry end
  if score ~= '' and seen ~= '' then redis.call('HDEL', entry, 'fire_time', 'last_error') end
  if score ~= '' and claim_id ~= '' then redis.call('HSET', entry, 'fire_time', '- - ' .. claim_id) end
  names[#names + 1] = name
end

local rows = cjson.decode(changes)
for i = 4, #KEYS do
  local word = refusal(KEYS[i], unpack(rows[i - 3], 6))
  if word then unwritten[#unwritten + 1] = {i - 3, word} else save(KEYS[i], unpack(rows[i - 3])) end
end
if #scores > 0 then redis.call('ZADD', schedule, unpack(scores)) end
if #static_names > 0 then redis.call('SADD', statics, unpack(static_names)) end
if #names > 0 and redis.call('TYPE', broken).ok == 'hash' then redis.call('HDEL', broken, unpack(names)) end
if #names > 0 then redis.call('PUBLISH', channel, message) end
return unwritten
