-- Removes a worker that has ended from the wait queues, and takes the limits of its
-- configuration out of force.
--
-- KEYS  1 alive  2 registry  3 log of the registry's changes  4 former limits
--       5… waiters of each limit
-- ARGV  1 worker  2 1 to remove it although its heartbeat is valid: it asks for
--         its own removal
--       3 holder of its limits  4 prefix of the wake channels
-- Reply 1 when it was removed, 0 when its heartbeat is valid and nothing was done
--
-- Its heartbeat and its limits go at once, so that no registration comes between them: without
-- a heartbeat, register.lua refuses it.
--
-- Idempotent: a removed worker is not there to remove again.

local worker = ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if ARGV[2] ~= '1' and tonumber(redis.call('ZSCORE', KEYS[1], worker) or 0) > now then
  return 0
end
redis.call('ZREM', KEYS[1], worker)
for i = 5, #KEYS do redis.call('ZREM', KEYS[i], worker) end
local before = redis.call('HGET', KEYS[2], ARGV[3])
if before then
  redis.call('HDEL', KEYS[2], ARGV[3])
  keep_former(KEYS[4], before, now)
  registry_changed(KEYS[2], KEYS[3], KEYS[1], ARGV[4], ARGV[3], now)
end
return 1
