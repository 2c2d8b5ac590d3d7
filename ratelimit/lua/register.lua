-- Puts a holder's limits into the registry, or takes them out, and tells every
-- live worker when that changed anything.
--
-- KEYS  1 registry  2 alive  3 log of the registry's changes
-- ARGV  1 holder  2 its limits as JSON, "" to take them out
--       3 prefix of the wake channels
-- Reply version of the registry
--
-- Twice is once: the same limits again change nothing.

local holder, limits = ARGV[1], ARGV[2]
if (redis.call('HGET', KEYS[1], holder) or '') == limits then
  return tonumber(redis.call('HGET', KEYS[1], 'version') or 0)
end
if limits == '' then
  redis.call('HDEL', KEYS[1], holder)
else
  redis.call('HSET', KEYS[1], holder, limits)
end
local time = redis.call('TIME')
return registry_changed(KEYS[1], KEYS[3], KEYS[2], ARGV[3], holder, time[1] * 1000000 + time[2])
