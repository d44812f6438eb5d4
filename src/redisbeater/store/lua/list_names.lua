-- Read one page of the members of the schedule with their scores, in no order, and some of them twice.
--
-- The reply is one text, because a client unpacks a thousand small ones slowly.
--
-- KEYS[1] schedule  sorted set: entry key -> UNIX seconds
-- ARGV[1] cursor    text: where the last page ended; '0': from the beginning
-- ARGV[2] pattern   text: glob that the members match
-- ARGV[3] count     number of members that are looked at
-- Returns {cursor of the next page, '0': this was the last one; JSON: members and scores in turn}
local schedule = KEYS[1]
local cursor, pattern, count = ARGV[1], ARGV[2], ARGV[3]

local page = redis.call('ZSCAN', schedule, cursor, 'MATCH', pattern, 'COUNT', count)
return {page[1], cjson.encode(page[2])}
