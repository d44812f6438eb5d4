-- Find the entries whose definition has a text in any case, or may have it: JSON may escape it, and letters beyond ASCII have
-- other forms that count as the same.
--
-- KEYS[1..] entries  hashes: the entries
-- ARGV[1] text       in small letters
-- Returns the places of these entries, counted from 1
local text = ARGV[1]
local found = {}

for i = 1, #KEYS do
  local definition = try('HGET', KEYS[i], 'definition') or ''
  if string.find(string.lower(definition), text, 1, true) or string.find(definition, '[\\\128-\255]') then
    found[#found + 1] = i
  end
end
return found
