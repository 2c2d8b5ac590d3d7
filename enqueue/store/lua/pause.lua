-- pause: no more runs of an active evaluation are begun.
--
-- KEYS[1] record
-- ARGV[1] the revision that is meant
-- ARGV[2] why the fleet does it itself, "" when a person does
-- ARGV[3] the command's token
-- Returns the evaluation's status afterwards: "paused", or "done" or
-- "cancelled" where there is nothing to pause; "" when it is gone, "stale"
-- when it has another revision: nothing was changed.
-- Twice: the second time finds its token, and leaves it active where it was resumed
-- between.
local status = redis.call("HGET", KEYS[1], "status")
if not status then
  return ""
end
if revision(KEYS[1]) ~= ARGV[1] then
  return "stale"
end
if status ~= "active" or steered(KEYS[1], ARGV[3]) then
  return status
end
noted(KEYS[1], ARGV[3])
redis.call("HSET", KEYS[1], "status", "paused", "stopped", ARGV[2])
return "paused"
