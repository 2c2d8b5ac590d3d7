-- restore_progress: progress of an unfinished run that Redis may have lost, from a process that
-- still knows it.
--
-- KEYS[1] record   KEYS[2] states   KEYS[3] progress   KEYS[4] runs in progress
-- KEYS[5] results stream
-- ARGV[1] offset of the run's byte   ARGV[2] generation
-- ARGV[3] seconds that the progress lives   ARGV[4] the run, as it is listed
-- ARGV[5] entry version   ARGV[6] calls answered   ARGV[7] calls made
-- ARGV[8] 2 if the run has a job, 1 if one is being submitted, or 0
-- ARGV[9] the job (JSON), or ""   ARGV[10…] field, value, …
-- Returns {answer, the job that the run had until then (JSON), or "", the server's memory}. The
-- answer is 1; 0 when the run has ended, or is of another generation; -1 when the evaluation
-- is gone; -2 when Redis has progress that is as far.
-- Twice: the second time, Redis has progress that is as far.
local status = redis.call("HGET", KEYS[1], "status")
if not status then
  return { -1, "", memory() }
end
local byte = string.byte(redis.call("GETRANGE", KEYS[2], ARGV[1], ARGV[1])) or 0
if byte ~= tonumber(ARGV[2]) * 4 then
  return { 0, "", memory() }
end

local there = redis.call("HMGET", KEYS[3], "answers", "attempts", "job", "submitting", "died:writer")
local had = there[3] or ""
if there[5] then
  local step = had ~= "" and 2 or tonumber(there[4] or 0) > 0 and 1 or 0
  local far = { tonumber(there[1] or 0), tonumber(there[2] or 0), step }
  local behind = false
  for i = 1, 3 do
    local ours = tonumber(ARGV[5 + i])
    if far[i] ~= ours then
      behind = far[i] < ours
      break
    end
  end
  if not behind then
    return { -2, had, memory() }
  end
end

-- The workers that died with the run stay counted.
redis.call("HDEL", KEYS[1], "") -- a first write that takes no memory: see record
for _, field in ipairs(redis.call("HKEYS", KEYS[3])) do
  if field ~= "deaths" and (field == "died:writer" or string.sub(field, 1, 5) ~= "died:") then
    redis.call("HDEL", KEYS[3], field)
  end
end
for i = 10, #ARGV, 2 do
  redis.call("HSET", KEYS[3], ARGV[i], ARGV[i + 1])
end
redis.call("EXPIRE", KEYS[3], ARGV[3])
redis.call("SADD", KEYS[4], ARGV[4])
redis.call("EXPIRE", KEYS[4], ARGV[3])
if ARGV[9] ~= "" and ARGV[9] ~= had then
  redis.call("XADD", KEYS[5], "*", "v", ARGV[5], "job", ARGV[9])
  outlive(KEYS[1], KEYS[5], status)
end
return { 1, had, memory() }
