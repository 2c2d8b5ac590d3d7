-- resume: a paused evaluation goes on.
--
-- KEYS[1] record   KEYS[2] cursors
-- Returns the evaluation's status afterwards: "active", or "done" or
-- "cancelled" where it cannot go on; "" when it is gone. Cursors start anew,
-- because tasks that were pulled during the pause were dropped: what is recorded
-- is passed over when runs are pushed, and tasks that are still there conflict.
-- Twice: the second time finds it active, and the cursors stay.
local status = redis.call("HGET", KEYS[1], "status")
if not status then
  return ""
end
if status ~= "paused" then
  return status
end
redis.call("HSET", KEYS[1], "status", "active", "stopped", "")
redis.call("DEL", KEYS[2])
return "active"
