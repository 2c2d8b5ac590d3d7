-- Removes a dead worker from the lines of those who wait.
--
-- KEYS  1 alive  2… waiters of each limit
-- ARGV  1 worker  2 1 to remove it although its heartbeat holds: it says so
--         itself
-- Reply 1 when it was removed, 0 when its heartbeat holds and nothing was done
--
-- Twice is once: what is removed is not there to remove again.

local worker = ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if ARGV[2] ~= '1' and tonumber(redis.call('ZSCORE', KEYS[1], worker) or 0) > now then
  return 0
end
redis.call('ZREM', KEYS[1], worker)
for i = 2, #KEYS do redis.call('ZREM', KEYS[i], worker) end
return 1
