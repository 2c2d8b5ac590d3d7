-- resume: resumes a paused evaluation, and the paused providers of an active one.
--
-- KEYS[1] record   KEYS[2] cursors   KEYS[3…] the evaluation's other keys
-- ARGV[1] the revision that is meant   ARGV[2] the command's token
-- Returns the evaluation's status afterwards: "active", or "done" or
-- "cancelled" if it cannot be resumed; "" when it is gone, "stale" when it has
-- another revision: nothing was changed. Cursors restart,
-- because tasks that were pulled during the pause were dropped: recorded runs
-- are skipped when runs are pushed, and existing tasks conflict. Keys persist again, which
-- had an end if the evaluation had ended because its best candidates were known.
-- The revision is raised, so that no push begun before moves them. The result is deleted.
-- Twice: the second time finds its token, and also leaves alone a pause that came
-- between.
local status = redis.call("HGET", KEYS[1], "status")
if not status then
  return ""
end
if steered(KEYS[1], ARGV[2]) then
  return status
end
if revision(KEYS[1]) ~= ARGV[1] then
  return "stale"
end
local pauses = redis.call("HEXISTS", KEYS[1], "paused") == 1
if status ~= "paused" and not (status == "active" and pauses) then
  return status
end
noted(KEYS[1], ARGV[2])
redis.call("HSET", KEYS[1], "status", "active", "stopped", "")
redis.call("HINCRBY", KEYS[1], "revision", 1)
redis.call("HDEL", KEYS[1], "paused", "streaks", "result")
redis.call("DEL", KEYS[2])
for i = 1, #KEYS do
  redis.call("PERSIST", KEYS[i])
end
return "active"
