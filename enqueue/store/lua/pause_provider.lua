-- pause_provider: no more runs of a provider are begun for an active evaluation.
--
-- KEYS[1] record
-- ARGV[1] the revision that is meant   ARGV[2] provider   ARGV[3] why (JSON)
-- ARGV[4] the command's token
-- Returns 2 when it is paused now and was not, 1 when it was, 0 when the evaluation
-- is not active or was resumed since this command paused it, -1 when it is gone, -2
-- when it has another revision: nothing was changed.
-- Twice: the second time finds it paused, and why stays as it was.
local known = redis.call("HMGET", KEYS[1], "status", "paused")
if not known[1] then
  return -1
end
if revision(KEYS[1]) ~= ARGV[1] then
  return -2
end
local pauses = known[2] and cjson.decode(known[2]) or {}
if known[1] ~= "active" then
  return 0
end
if pauses[ARGV[2]] then
  return 1
end
if steered(KEYS[1], ARGV[4]) then
  return 0
end
noted(KEYS[1], ARGV[4])
pauses[ARGV[2]] = cjson.decode(ARGV[3])
redis.call("HSET", KEYS[1], "paused", cjson.encode(pauses))
return 2
