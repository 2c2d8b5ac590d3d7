-- Removes a dead worker from the wait queues.
--
-- KEYS  1 alive  2… waiters of each limit
-- ARGV  1 worker  2 1 to remove it although its heartbeat is valid: it asks for
--         its own removal
-- Reply 1 when it was removed, 0 when its heartbeat is valid and nothing was done
--
-- Idempotent: a removed worker is not there to remove again.

local worker = ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if ARGV[2] ~= '1' and tonumber(redis.call('ZSCORE', KEYS[1], worker) or 0) > now then
  return 0
end
redis.call('ZREM', KEYS[1], worker)
for i = 2, #KEYS do redis.call('ZREM', KEYS[i], worker) end
return 1
