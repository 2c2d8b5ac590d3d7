-- pause: no more runs of an active evaluation are begun.
--
-- KEYS[1] record
-- ARGV[1] why the fleet does it itself, "" when a person does
-- ARGV[2] the command's token
-- Returns the evaluation's status afterwards: "paused", or "done" or
-- "cancelled" where there is nothing to pause; "" when it is gone.
-- Twice: the second time finds its token, and leaves it active where it was resumed
-- between.
local status = redis.call("HGET", KEYS[1], "status")
if not status then
  return ""
end
if status ~= "active" or steered(KEYS[1], ARGV[2]) then
  return status
end
noted(KEYS[1], ARGV[2])
redis.call("HSET", KEYS[1], "status", "paused", "stopped", ARGV[1])
return "paused"
