-- pause_provider: no more runs of a provider are begun for an active evaluation.
--
-- KEYS[1] record
-- ARGV[1] provider   ARGV[2] why (JSON)
-- Returns 2 when it is paused now and was not, 1 when it was, 0 when the evaluation
-- is not active, -1 when it is gone.
-- Twice: the second time finds it paused, and why stays as it was.
local known = redis.call("HMGET", KEYS[1], "status", "paused")
if not known[1] then
  return -1
end
local pauses = known[2] and cjson.decode(known[2]) or {}
if known[1] ~= "active" then
  return 0
end
if pauses[ARGV[1]] then
  return 1
end
pauses[ARGV[1]] = cjson.decode(ARGV[2])
redis.call("HSET", KEYS[1], "paused", cjson.encode(pauses))
return 2
