-- Hands a lease over from the worker that holds it to a background call.
--
-- KEYS  1 ledger of the worker  2 ledger of background calls  3 background
--       calls, then the set of leases of each limit that has one, then the mark of a call
--       that has ended
-- ARGV  1 lease  2 name of the background call  3 µs until its latest end
--       4 data that its end needs, then for each set with what the lease's name ends there
-- Reply 1, or 0 when the worker's lease, or the background call, has ended
--
-- Idempotent: the second time the background call has it.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local lease, call, ends = ARGV[1], ARGV[2], now + tonumber(ARGV[3])
if redis.call('EXISTS', KEYS[#KEYS]) == 1 then return 0 end
if redis.call('ZSCORE', KEYS[2], call) then return 1 end
if tonumber(redis.call('ZSCORE', KEYS[1], lease) or 0) <= now then return 0 end
redis.call('ZREM', KEYS[1], lease)
redis.call('ZADD', KEYS[2], ends, call)
redis.call('HSET', KEYS[3], call, ARGV[4])
for i = 4, #KEYS - 1 do
  redis.call('ZREM', KEYS[i], lease .. ARGV[i + 1])
  redis.call('ZADD', KEYS[i], ends, call .. ARGV[i + 1])
end
local life = math.ceil(tonumber(ARGV[3]) / 1000) + 3600000
for i = 2, #KEYS - 1 do
  if redis.call('PTTL', KEYS[i]) < life then redis.call('PEXPIRE', KEYS[i], life) end
end
return 1
