-- Take runs that beat is to send now, for a lease, the oldest first. If beat dies, another one takes them when the
-- lease ends.
--
-- While another run of its entry is active, a buffered run, or a lost one whose entry has one run at a time, is put off
-- for 5 seconds. Members that stand for no run, or for one that is not to be sent any more, are removed. The entry is
-- not read: it may have deleted itself.
--
-- KEYS[1] resend     sorted set: run key -> when it is to be sent
-- KEYS[2] lock       string: token of the leader
-- KEYS[3] pause      string: why the schedule is paused; only while it is
-- ARGV[1] prefix     text: what every key of the schedule begins with
-- ARGV[2] token      text: what the lock must hold; empty: there is no lock
-- ARGV[3] lease      seconds
-- ARGV[4] limit      number of runs
-- ARGV[5] most       bytes of the longest payload
-- ARGV[6] enough     bytes of all payloads: then no other run is taken
-- ARGV[7] taken      text: by what they are taken; who commits them with their messages has to know it
-- Returns {'TAKEN', JSON {runs}}, for each its key and its fields, none while the schedule is paused; or {'FENCED',
--      ''}: another beat holds the lock, or nobody, and nothing was taken
local resend, lock, pause = KEYS[1], KEYS[2], KEYS[3]
local prefix, token, lease, limit, most, enough = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local taken = ARGV[7]

local runs, bytes = {}, 0

-- Tell whether another run of its entry is in the way of a run that waits. One that waits as well is not, until it is
-- taken.
local function has_to_wait(key, name)
  for _, other in ipairs(active_of(prefix, name, 10, key)) do
    local run = read_run(other)
    if not run or run.state ~= 'BUFFERED' and run.state ~= 'LOST' or run.taken then return true end
  end
  return false
end

local function take(key)
  local run = describe_run(prefix, key, most)
  if not run or run.state ~= 'BUFFERED' and run.state ~= 'LOST' then return redis.call('ZREM', resend, key) end
  local is_single = run.state == 'BUFFERED' or run.alone == '1'
  if is_single and has_to_wait(key, run.name) then return redis.call('ZADD', resend, server_time(5), key) end
  redis.call('ZADD', resend, server_time(lease), key)
  redis.call('HSET', key, 'taken', taken)
  run.key = key
  runs[#runs + 1] = run
  bytes = bytes + #(run.payload or '')
end

if token ~= '' and text_at(lock) ~= token then return {'FENCED', ''} end
local due = text_at(pause) and {} or try('ZRANGEBYSCORE', resend, '-inf', server_time(), 'LIMIT', 0, limit) or {}
for _, key in ipairs(due) do
  if bytes < tonumber(enough) then aside(take, key) end
end
return told({'TAKEN', cjson.encode({runs = runs})})
