-- submitted: an evaluation was submitted again, and nothing of it changed.
--
-- KEYS[1] record
-- Returns 1, or 0 when it is gone. The revision is raised, so that no pause, cancellation or
-- deletion that was sent before takes effect afterwards.
-- Twice: the revision is raised once more.
if redis.call("EXISTS", KEYS[1]) == 0 then
  return 0
end
redis.call("HINCRBY", KEYS[1], "revision", 1)
return 1
