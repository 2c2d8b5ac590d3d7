-- Tells a budget how much was spent before Redis began to count, which opens it.
--
-- KEYS  1 the budget's money  2 registry  3 alive
-- ARGV  1 nano-USD  2 prefix of the wake channels
-- Reply nano-USD spent and reserved in all
--
-- Wakes every live worker, because its calls may now be admitted.
--
-- Idempotent: Redis has counted itself what is told later.

local MONTH = 2592000000 -- ms that the money outlives its last change
if redis.call('HSETNX', KEYS[1], 'told', ARGV[1]) == 0 then
  return tonumber(redis.call('HGET', KEYS[1], 'used'))
end
local used = redis.call('HINCRBY', KEYS[1], 'used', ARGV[1])
redis.call('PEXPIRE', KEYS[1], MONTH)
redis.call('HINCRBY', KEYS[2], 'version', 1)
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], now, '+inf')) do
  redis.call('PUBLISH', ARGV[2] .. worker, 'limits')
end
return used
