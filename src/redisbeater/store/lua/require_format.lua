-- Record the version that the definitions to come need, where none is stored; refuse if an older one is.
--
-- KEYS[1] format    string: version of what beat writes
-- ARGV[1] version   number: what these definitions need
-- Returns '', or what the key holds: beats of that version would misread them, and nothing is written
local format = KEYS[1]
local version = ARGV[1]

local stored = text_at(format)
local newer, is_older = newer_format(format, version)
if stored and is_older then return stored end
if is_older then redis.call('SET', format, version) end
return ''
