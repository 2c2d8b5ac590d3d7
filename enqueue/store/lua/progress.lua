-- progress: state that must outlive the worker of an unfinished run, and the calls that
-- were made for it.
--
-- KEYS[1] record   KEYS[2] states   KEYS[3] progress   KEYS[4] runs in progress
-- KEYS[5] results stream
-- ARGV[1] offset of the run's byte   ARGV[2] generation
-- ARGV[3] seconds that the progress lives   ARGV[4] the run, as it is listed
-- ARGV[5] entry version   ARGV[6] calls (JSON) or ""   ARGV[7] the pull that
-- writes   ARGV[8] the pull that had written when this one read, or ""
-- ARGV[9] a job that was submitted (JSON), or ""   ARGV[10…] field, value, …
-- Returns {answer, the id of the entry with the calls, or "", the server's memory}. The
-- answer is 1; 0 when the run has ended, or is of another generation: a deleted key does
-- not come back, and a retried run starts without the attempts of those before; -1 when
-- the evaluation is gone, and nothing is kept; -2 when another pull has written since,
-- and only the calls are kept.
-- Twice: it writes the same again, and appends calls and job again; they have ids,
-- and the results store keeps each once.
local status = redis.call("HGET", KEYS[1], "status")
if not status then
  return { -1, "", memory() }
end
redis.call("HDEL", KEYS[1], "") -- a first write that takes no memory: see record
local entry = ""
if ARGV[6] ~= "" then
  entry = redis.call("XADD", KEYS[5], "*", "v", ARGV[5], "calls", ARGV[6])
  outlive(KEYS[1], KEYS[5], status)
end
local byte = string.byte(redis.call("GETRANGE", KEYS[2], ARGV[1], ARGV[1])) or 0
if byte ~= tonumber(ARGV[2]) * 4 then
  return { 0, entry, memory() }
end
local writer = redis.call("HGET", KEYS[3], "died:writer") or ""
if writer ~= "" and writer ~= ARGV[7] and writer ~= ARGV[8] then
  return { -2, entry, memory() }
end
if ARGV[9] ~= "" then
  redis.call("XADD", KEYS[5], "*", "v", ARGV[5], "job", ARGV[9])
  outlive(KEYS[1], KEYS[5], status)
end
for i = 10, #ARGV, 2 do
  redis.call("HSET", KEYS[3], ARGV[i], ARGV[i + 1])
end
redis.call("EXPIRE", KEYS[3], ARGV[3])
redis.call("SADD", KEYS[4], ARGV[4])
redis.call("EXPIRE", KEYS[4], ARGV[3])
return { 1, entry, memory() }
