-- Forgets what was spent of the budget of an evaluation that is deleted.
--
-- KEYS  1 the budget's money  2 its leases
-- ARGV  1–3 used, told and base of the money, as they were read; "0" for none
-- Reply 1 when nothing is remembered any more; 0 when nothing was done: calls are in flight, or
--       the money has changed
--
-- A command that arrives late finds other money, once another evaluation with the same ID was
-- told, or has used, any. Twice is once.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if redis.call('ZCOUNT', KEYS[2], string.format('(%d', now), '+inf') > 0 then return 0 end
local saved = redis.call('HMGET', KEYS[1], 'used', 'told', 'base')
for i = 1, 3 do
  if (saved[i] or '0') ~= ARGV[i] then return 0 end
end
redis.call('DEL', KEYS[1], KEYS[2])
return 1
