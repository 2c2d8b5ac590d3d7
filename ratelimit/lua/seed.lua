-- Seeds a quota with its usage before Redis lost its memory, which opens it.
--
-- KEYS  1 the quota's state  2 registry  3 alive  4 log of the registry's changes
-- ARGV  1 who seeds  2 units  3 next reset (µs)  4 prefix of the wake channels
--       5 1 when the seeder has no record from before Redis's memory, and cannot know
--       6 epoch in which the units were counted, "" for any
-- Reply units used in all, or -1 when nothing was done: the seeder cannot know, and calls may
--       have been made before; or -2: another epoch is in force, and Redis may have lost more
--
-- Wakes every live worker, because its calls may now be admitted.
--
-- Idempotent: a seeder's units replace those it gave before.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local epoch = redis.call('HGET', KEYS[2], 'epoch') or ''
if ARGV[6] ~= '' and ARGV[6] ~= epoch then return -2 end
local first = string.sub(epoch, 1, 6) == 'first-' -- as in ratelimit/memory.go
local saved = redis.call('HMGET', KEYS[1], 'reset', 'closed')
if ARGV[5] == '1' and (saved[2] or not first and tonumber(saved[1] or 0) <= now) then return -1 end
local used, open = tell_quota(KEYS[1], epoch, 'told:' .. ARGV[1], tonumber(ARGV[2]), now)
if open then
  redis.call('HDEL', KEYS[1], 'closed')
else
  redis.call('HSET', KEYS[1], 'used', string.format('%d', used), 'reset', ARGV[3])
end
redis.call('PEXPIRE', KEYS[1], math.ceil((tonumber(ARGV[3]) - now) / 1000) + 86400000) -- as in admit/quota.lua
registry_changed(KEYS[2], KEYS[4], KEYS[3], ARGV[4], '', now)
return used
