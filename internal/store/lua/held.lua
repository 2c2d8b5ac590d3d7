-- held: what of an evaluation's results stands in Redis alone.
--
-- KEYS[1] record   KEYS[2] results stream
-- Returns {created, age}: when the record was made, Unix ms, or "" where there
-- is none; how many ms ago the oldest entry was appended that no sink has yet,
-- or "" where every entry is in the sink.
-- Twice: it only reads.
local created = redis.call("HGET", KEYS[1], "created") or ""
local oldest = redis.call("XRANGE", KEYS[2], "-", "+", "COUNT", 1)[1]
if not oldest then
  return {created, ""}
end
local now = redis.call("TIME")
local millis = now[1] * 1000 + math.floor(now[2] / 1000)
return {created, string.format("%d", math.max(millis - tonumber(string.match(oldest[1], "^%d+")), 0))}
