-- held: the part of an evaluation's results that only Redis has.
--
-- KEYS[1] record   KEYS[2] results stream
-- Returns {created, oldest, status, memory}: when the record was made, Unix ms, or ""
-- if there is none; the id of the oldest entry that no results store has yet, or "" if
-- every entry is stored; the evaluation's status, or ""; the server's memory.
-- Twice: it only reads.
local record = redis.call("HMGET", KEYS[1], "created", "status")
local created, status = record[1] or "", record[2] or ""
local oldest = redis.call("XRANGE", KEYS[2], "-", "+", "COUNT", 1)[1]
return {created, oldest and oldest[1] or "", status, memory()}
