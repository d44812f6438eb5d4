-- Record the version that beat writes, unless the data is newer. The version is never lowered.
--
-- KEYS[1] format    string: version of what beat writes
-- ARGV[1] version   number: what this beat writes
-- Returns {'ADOPTED', ''}, or {'OUTDATED', what the key holds}: the data is newer than this beat
local format = KEYS[1]
local version = ARGV[1]

local newer, is_older = newer_format(format, version)
if newer then return {'OUTDATED', newer} end
if is_older then redis.call('SET', format, version) end
return {'ADOPTED', ''}
