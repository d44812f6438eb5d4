-- Correct the lists of entries and runs that something is wrong with: remove what is gone, entries that do not wait for
-- another try any more, entries whose last ends say something else, and runs that do not wait for a worker.
--
-- Our own scripts keep the lists right; another program that deletes a hash or sets a score does not, nor does a beat
-- from before these lists that deletes an entry. The lists of entries of which runs fail are built from the key of the
-- schedule, and share its slot.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] failing    sorted set: entry key -> the fire time that it owes
-- KEYS[3] waiting    sorted set: key of a run that no worker has started -> since when it waits
-- KEYS[4..] members  what members of the lists stand for, each of any type
-- Returns nothing
local schedule, failing, waiting = KEYS[1], KEYS[2], KEYS[3]
local run_start = string.sub(schedule, 1, -10) .. ':run:' -- the key of the schedule is the prefix and ':schedule'

local function owed_by(key)
  local stored = read(key, 'fire_time', 'look_at', 'last_error')
  if stored.last_error and is_later_look(redis.call('ZSCORE', schedule, key), stored) then return stored.fire_time end
  clear_failure(failing, key)
end

local function mend_entry(key)
  local is_entry = redis.call('TYPE', key).ok == 'hash' and is_own(schedule, key)
  local owed = is_entry and owed_by(key)
  if owed then
    try('ZADD', failing, 'XX', owed, key)
  else
    try('ZREM', failing, key)
  end
  list_problem(schedule, key, is_entry and read(key, 'ends').ends)
end

for i = 4, #KEYS do
  if string.find(KEYS[i], run_start, 1, true) ~= 1 then
    mend_entry(KEYS[i])
  elseif read(KEYS[i], 'state').state ~= 'SENT' then
    try('ZREM', waiting, KEYS[i])
  end
end
