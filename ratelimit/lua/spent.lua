-- Tells a budget how much was spent before Redis began to count, which opens it. A budget that
-- Redis remembers in part has at least that.
--
-- KEYS  1 the budget's money  2 registry  3 alive  4 log of the registry's changes
-- ARGV  1 nano-USD  2 prefix of the wake channels
--       3 epoch in which the amount was read, "" for any
-- Reply nano-USD spent and reserved in all, or -1 when nothing was done: another epoch is in
--       force, and Redis may have lost more since
--
-- Wakes every live worker, because its calls may now be admitted.
--
-- Idempotent: Redis has counted itself what is told later.

local MONTH = 2592000000 -- ms that the money outlives its last change
if ARGV[3] ~= '' and ARGV[3] ~= redis.call('HGET', KEYS[2], 'epoch') then return -1 end
local saved = redis.call('HMGET', KEYS[1], 'used', 'told', 'base')
local used = tonumber(saved[1] or 0)
if saved[2] then return used end
used = math.max(used + tonumber(ARGV[1]), tonumber(saved[3] or 0))
redis.call('HDEL', KEYS[1], '') -- the first write takes no memory: collecting empties a full Redis
redis.call('HSET', KEYS[1], 'told', ARGV[1], 'used', string.format('%d', used))
redis.call('HDEL', KEYS[1], 'base')
redis.call('PEXPIRE', KEYS[1], MONTH)
local time = redis.call('TIME')
registry_changed(KEYS[2], KEYS[4], KEYS[3], ARGV[2], '', time[1] * 1000000 + time[2])
return used
