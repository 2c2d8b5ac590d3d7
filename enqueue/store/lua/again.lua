-- again: the runs of an evaluation are to be pushed again, because tasks of it may have
-- been removed.
--
-- KEYS[1] record   KEYS[2] cursors
-- Returns 1, or 0 if nothing is to be pushed: it is gone, done or cancelled. The
-- revision is raised, so that no push begun before moves a cursor.
-- Twice: the runs are pushed once more, which leaves existing tasks alone.
local status = redis.call("HGET", KEYS[1], "status")
if status ~= "active" and status ~= "paused" then
  return 0
end
redis.call("HDEL", KEYS[1], "") -- the first write takes no memory: Redis may be full
redis.call("HINCRBY", KEYS[1], "revision", 1)
redis.call("DEL", KEYS[2])
return 1
