-- check: whether a pulled task may still do anything.
--
-- KEYS[1] record   KEYS[2] states   KEYS[3] progress of the run
-- ARGV[1] offset of the run's byte   ARGV[2] generation of the task
-- Returns {verdict, field, value, …}: verdict "run", or why the task is to be
-- dropped: "gone" (no record), "paused", "cancelled", "ended" (the run has
-- ended, or the task is of another generation); then the progress hash.
-- Twice: it only reads.
local status = redis.call("HGET", KEYS[1], "status")
if not status then
  return {"gone"}
end
if status == "paused" or status == "cancelled" then
  return {status}
end
local byte = string.byte(redis.call("GETRANGE", KEYS[2], ARGV[1], ARGV[1])) or 0
if byte ~= tonumber(ARGV[2]) * 4 then
  return {"ended"}
end
local answer = redis.call("HGETALL", KEYS[3])
table.insert(answer, 1, "run")
return answer
