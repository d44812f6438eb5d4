-- What a commit also records where runs are tracked. It stands in front of commit.lua.

local tracking = cjson.decode(ARGV[7])
local prefix, wait = tracking.prefix, tracking.wait
local names, sent = {}, 0

-- Store until when one of the runs of an entry is to end well, by the first that was sent since the last good end; one
-- that its worker has ended so already keeps that.
local function promise(new)
  for _, run in ipairs(new.runs) do
    if run.state ~= 'BUFFERED' and not is_success(read(prefix .. ':run:' .. run.id, 'state').state) then
      redis.call('HSET', prefix .. new.name, 'span', new.span)
      try('ZADD', prefix .. ':promises', 'NX', (run.eta or now) + new.span, prefix .. new.name)
    end
  end
end

-- Record the runs of an entry that were sent or are to wait. Beat sends the one that waits next if nothing is in its
-- way, or if the entry is about to be deleted.
local function record_runs(new, is_deleted)
  local newly_sent = 0
  for _, run in ipairs(new.runs or {}) do
    run.name = new.name
    if record_run(prefix, wait, run, now) then newly_sent = newly_sent + 1 end
    if run.state == 'BUFFERED' then
      buffer(prefix, new.name, prefix .. ':run:' .. run.id)
    else
      sent = sent + 1
    end
  end
  if is_deleted or new.waits then release_buffered(prefix, new.name, is_deleted) end
  if newly_sent > 0 then aside(count, prefix .. new.name, 'n.sent', newly_sent) end
  if new.span and newly_sent > 0 and not is_deleted then aside(promise, new) end
  if new.skipped_count then aside(count, prefix .. new.name, 'n.skipped', new.skipped_count) end
  if new.runs then names[#names + 1] = new.name end
end

-- Record that a run that has waited was sent for the first time.
local function record_first_send(run)
  local sent_at = instant(run.started_at) and run.started_at or now
  redis.call('HSET', run.key, 'sent_at', sent_at)
  try('ZADD', prefix .. ':runs:' .. run.name, sent_at, run.key)
  if exists(prefix, run.name) then count(prefix .. run.name, 'n.sent') end
end

-- Put the message of a run that was taken into the broker, if it is taken by nothing else since. From then on nobody
-- takes it. Return why not; nil: it is there, or was before. The second answer: how many commands came through, if not
-- all did.
local function put_resent(run, new, broker)
  if ARGV[6] == '1' and not run.taken and run.attempt == new.attempt then return nil end
  local is_ours = run.taken == new.taken and run.attempt == new.attempt
  if not is_ours or run.state ~= 'BUFFERED' and run.state ~= 'LOST' then return {gone = true} end
  local refusal, done = put(broker, new.push, new.lengths)
  if refusal then return refusal end
  redis.call('HDEL', run.key, 'taken')
  redis.call('HSET', run.key, 'state', 'SENT')
  return nil, done
end

-- Record that a run that was taken has been sent, unless its worker was quicker or somebody has stopped it. If it was
-- lost once more meanwhile, it stays listed: beat is to send the next attempt.
local function record_resent(run, new)
  names[#names + 1] = run.name
  if not run.sent_at then aside(record_first_send, run) end
  if run.attempt ~= new.attempt then return end
  redis.call('HDEL', run.key, 'taken')
  try('ZREM', prefix .. ':resend', run.key)
  run.expires = new.expires
  if new.expires then
    redis.call('HSET', run.key, 'expires', new.expires)
  else
    redis.call('HDEL', run.key, 'expires')
  end
  if run.state ~= 'BUFFERED' and run.state ~= 'LOST' then return end
  redis.call('HSET', run.key, 'state', 'SENT')
  await_start(prefix, wait, run, now + (tonumber(new.countdown) or 0))
  aside(forget_end, prefix, run.key)
end

-- Record the runs that were taken and sent, and publish the names of all entries of which a run was recorded.
local function record_all_resent(answers, broker)
  answers.resent = {}
  for _, new in ipairs(tracking.resent) do
    local run = read_run(prefix .. ':run:' .. new.id)
    if run and new.push then
      local refusal, done = put_resent(run, new, broker)
      local problem = not refusal and problem_in(record_resent, run, new)
      local refusals = take_refused()
      problem = problem or refusals
      local rest = (problem or done) and {reduced = problem or nil, done = done, name = run.name}
      answers.resent[new.id] = refusal or rest or nil
    elseif run then
      record_resent(run, new)
      local problem = take_refused()
      answers.resent[new.id] = problem and {reduced = problem, name = run.name}
    end
  end
  if sent > 0 then aside(count, prefix .. ':totals', 'SENT', sent) end
  if #names > 0 then aside(try, 'PUBLISH', prefix .. ':events', cjson.encode({unpack(names, 1, 50)})) end
  answers.reduced = refused and {name = names[1] or '', reduced = refused}
end
