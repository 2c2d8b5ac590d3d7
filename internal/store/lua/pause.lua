-- pause: no more runs of an active evaluation are begun.
--
-- KEYS[1] record
-- ARGV[1] why the fleet does it itself, "" when a person does
-- Returns the evaluation's status afterwards: "paused", or "done" or
-- "cancelled" where there is nothing to pause; "" when it is gone.
-- Twice: the second time finds it paused.
local status = redis.call("HGET", KEYS[1], "status")
if not status then
  return ""
end
if status ~= "active" then
  return status
end
redis.call("HSET", KEYS[1], "status", "paused", "stopped", ARGV[1])
return "paused"
