-- progress: what must outlive the worker of a run that goes back to its queue.
--
-- KEYS[1] record   KEYS[2] states   KEYS[3] progress
-- ARGV[1] offset of the run's byte   ARGV[2] generation
-- ARGV[3] seconds that the progress lives   ARGV[4…] field, value, …
-- Returns 1, or 0 when the run has ended, is of another generation, or its
-- evaluation is gone: a deleted key does not come back, and a retried run starts
-- without the attempts of those before.
-- Twice: it writes the same again.
if redis.call("EXISTS", KEYS[1]) == 0 then
  return 0
end
local byte = string.byte(redis.call("GETRANGE", KEYS[2], ARGV[1], ARGV[1])) or 0
if byte ~= tonumber(ARGV[2]) * 4 then
  return 0
end
for i = 4, #ARGV, 2 do
  redis.call("HSET", KEYS[3], ARGV[i], ARGV[i + 1])
end
redis.call("EXPIRE", KEYS[3], ARGV[3])
return 1
