-- died: one more worker died holding a run that has not ended.
--
-- KEYS[1] record   KEYS[2] states   KEYS[3] progress   KEYS[4] runs in progress
-- ARGV[1] offset of the run's byte   ARGV[2] generation
-- ARGV[3] seconds that the progress lives   ARGV[4] the run, as it is listed
-- ARGV[5] names this death
-- Returns how many have died holding it; 0 when the run has ended or is gone.
-- Twice: a death is counted once, its name is in the hash.
if redis.call("EXISTS", KEYS[1]) == 0 then
  return 0
end
local byte = string.byte(redis.call("GETRANGE", KEYS[2], ARGV[1], ARGV[1])) or 0
if byte ~= tonumber(ARGV[2]) * 4 then
  return 0
end
if redis.call("HSETNX", KEYS[3], "died:" .. ARGV[5], 1) == 1 then
  redis.call("EXPIRE", KEYS[3], ARGV[3])
  redis.call("SADD", KEYS[4], ARGV[4])
  redis.call("EXPIRE", KEYS[4], ARGV[3])
  return redis.call("HINCRBY", KEYS[3], "deaths", 1)
end
return tonumber(redis.call("HGET", KEYS[3], "deaths"))
