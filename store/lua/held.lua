-- held: the part of an evaluation's results that only Redis has.
--
-- KEYS[1] record   KEYS[2] results stream
-- Returns {created, age, status}: when the record was made, Unix ms, or "" if
-- there is none; how many ms ago the oldest entry was appended that no results store has
-- yet, or "" if every entry is stored; the evaluation's status, or "".
-- Twice: it only reads.
local record = redis.call("HMGET", KEYS[1], "created", "status")
local created, status = record[1] or "", record[2] or ""
local oldest = redis.call("XRANGE", KEYS[2], "-", "+", "COUNT", 1)[1]
if not oldest then
  return {created, "", status}
end
local now = redis.call("TIME")
local millis = now[1] * 1000 + math.floor(now[2] / 1000)
return {created, string.format("%d", math.max(millis - tonumber(string.match(oldest[1], "^%d+")), 0)), status}
