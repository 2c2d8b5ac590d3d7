-- forget_progress: progress of a run of an evaluation that was cancelled or deleted.
--
-- KEYS[1] record   KEYS[2] runs in progress   KEYS[3] progress
-- ARGV[1] the run, as it is listed
-- Returns 1, or 0 where the evaluation is active again: it was submitted since, and nothing is
-- removed.
-- Twice: there is nothing left to remove.
local status = redis.call("HGET", KEYS[1], "status")
if status and status ~= "cancelled" then
  return 0
end
redis.call("UNLINK", KEYS[3])
redis.call("SREM", KEYS[2], ARGV[1])
return 1
