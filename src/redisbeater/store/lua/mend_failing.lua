-- Correct the list of failing entries: remove those that are gone, or that do not wait for another try any more.
--
-- Our own scripts keep the list right; another program that deletes a hash or sets a score does not.
--
-- KEYS[1] schedule   sorted set: entry key -> UNIX seconds
-- KEYS[2] failing    sorted set: entry key -> the fire time that it owes
-- KEYS[3..] entries  what the members of the list stand for, each of any type
-- Returns how many members were removed
local schedule, failing = KEYS[1], KEYS[2]
local removed = 0

local function owed_by(key)
  if redis.call('TYPE', key).ok ~= 'hash' or not is_own(schedule, key) then return nil end
  local stored = read(key, 'fire_time', 'look_at', 'last_error')
  if stored.last_error and is_later_look(redis.call('ZSCORE', schedule, key), stored) then return stored.fire_time end
  clear_failure(failing, key)
end

for i = 3, #KEYS do
  local owed = owed_by(KEYS[i])
  if owed then
    redis.call('ZADD', failing, 'XX', owed, KEYS[i])
  else
    redis.call('ZREM', failing, KEYS[i])
    removed = removed + 1
  end
end
return removed
