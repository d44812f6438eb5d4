-- Record a run that a program is about to send, or buffer it, where the policy of its entry lets it. When it is
-- executed twice, because its reply was lost, the second time writes nothing and answers as the first.
--
-- KEYS[1] entry      hash: the entry
-- KEYS[2] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[3] answer     string: what this call has answered, kept for a minute
-- ARGV[1] prefix     text: what every key of the schedule begins with
-- ARGV[2] wait       seconds that a run may wait for its start
-- ARGV[3] overlap    text: allow, skip, buffer_one or cancel_other
-- ARGV[4] text       JSON of the run, as commit takes it, but for its state
-- Returns {word, keys of runs that are active or wait}, 'RESERVED', 'BUFFERED', 'KNOWN': a call with the same id has
--      sent it, 'CLAIMED': a beat has claimed the entry, or 'BUSY': these runs are in its way; with the last three
--      nothing was written
local entry, schedule, answer = KEYS[1], KEYS[2], KEYS[3]
local prefix, wait, overlap, text = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local new = cjson.decode(text)
new.name = string.sub(entry, #prefix + 1)
local own = prefix .. ':run:' .. new.id

local function is_claimed()
  local look = redis.call('ZSCORE', schedule, entry)
  return look and tonumber(look) > tonumber(server_time()) and read(entry, 'claim').claim
end

local function count_sent()
  if exists(prefix, new.name) then count(entry, 'n.sent') end
end

local function reserve(state)
  new.state = state
  local is_sent = record_run(prefix, wait, new, server_time())
  if state == 'BUFFERED' then buffer(prefix, new.name, own) end
  if is_sent then aside(count_sent) end
  publish_event(prefix, new.name)
end

-- Return the answer where a call with the same id has recorded the run: it waits, or a worker has it. One that may not
-- have been sent is sent now, and one that was withdrawn is recorded again.
local function earlier_answer()
  local run = read_run(own)
  if not run or run.state == 'SENT' then return end
  if run.state ~= 'LOST' or run.starts > 0 then return {run.state == 'BUFFERED' and 'BUFFERED' or 'KNOWN', {}} end
  delete_run(prefix, own)
  try('ZREM', prefix .. ':runs:' .. new.name, own)
  aside(try, 'ZREM', prefix .. ':failures', own)
end

local function decide()
  local earlier = earlier_answer()
  if earlier then return earlier end
  local active = overlap ~= 'allow' and active_of(prefix, new.name, 10, own) or {}
  local waiting = overlap ~= 'allow' and buffered_of(prefix, new.name)
  if overlap ~= 'allow' and is_claimed() then return {'CLAIMED', {}} end
  if #active == 0 and not waiting then
    reserve('SENT')
    return {'RESERVED', {}}
  end
  if overlap == 'skip' or overlap == 'buffer_one' and waiting then
    active[#active + 1] = waiting or nil
    return {'BUSY', active}
  end
  reserve('BUFFERED')
  release_buffered(prefix, new.name, not exists(prefix, new.name), own)
  return {'BUFFERED', active}
end

return once(answer, decide)
