-- Puts a holder's limits into the registry, or takes them out, and tells every
-- live worker when that changed anything.
--
-- KEYS  1 registry  2 alive  3 log of the registry's changes  4 former limits
-- ARGV  1 holder  2 its limits as JSON, "" to take them out
--       3 prefix of the wake channels
--       4 worker whose limits they are, "" for none
-- Reply version of the registry, or -1 when nothing was done: the worker has no valid heartbeat
--
-- Twice is once: the same limits again change nothing. What a worker sent before it ended finds
-- no heartbeat, however late it arrives: see forget.lua.

local holder, limits = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if ARGV[4] ~= '' and tonumber(redis.call('ZSCORE', KEYS[2], ARGV[4]) or 0) <= now then return -1 end
local before = redis.call('HGET', KEYS[1], holder)
if (before or '') == limits then
  return tonumber(redis.call('HGET', KEYS[1], 'version') or 0)
end
if limits == '' then
  redis.call('HDEL', KEYS[1], holder)
else
  redis.call('HDEL', KEYS[1], '') -- the first write takes no memory: a full Redis can be paused
  redis.call('HSET', KEYS[1], holder, limits)
end
if before then keep_former(KEYS[4], before, now) end
return registry_changed(KEYS[1], KEYS[3], KEYS[2], ARGV[3], holder, now)
