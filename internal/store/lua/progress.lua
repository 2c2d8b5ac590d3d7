-- progress: what must outlive the worker of a run that goes on, and the calls that
-- were made for it.
--
-- KEYS[1] record   KEYS[2] states   KEYS[3] progress   KEYS[4] runs in progress
-- KEYS[5] results stream
-- ARGV[1] offset of the run's byte   ARGV[2] generation
-- ARGV[3] seconds that the progress lives   ARGV[4] the run, as it is listed
-- ARGV[5] entry version   ARGV[6] calls (JSON) or ""   ARGV[7…] field, value, …
-- Returns 1; 0 when the run has ended, or is of another generation: a deleted key
-- does not come back, and a retried run starts without the attempts of those
-- before; -1 when the evaluation is gone, and nothing is kept.
-- Twice: it writes the same again, and appends the calls again; they have ids, and
-- the sink keeps each once.
if redis.call("EXISTS", KEYS[1]) == 0 then
  return -1
end
if ARGV[6] ~= "" then
  redis.call("XADD", KEYS[5], "*", "v", ARGV[5], "calls", ARGV[6])
end
local byte = string.byte(redis.call("GETRANGE", KEYS[2], ARGV[1], ARGV[1])) or 0
if byte ~= tonumber(ARGV[2]) * 4 then
  return 0
end
for i = 7, #ARGV, 2 do
  redis.call("HSET", KEYS[3], ARGV[i], ARGV[i + 1])
end
redis.call("EXPIRE", KEYS[3], ARGV[3])
redis.call("SADD", KEYS[4], ARGV[4])
redis.call("EXPIRE", KEYS[4], ARGV[3])
return 1
