-- Begins an epoch of Redis's memory, unless the one in force is this server's.
--
-- KEYS  1 registry
-- ARGV  1 name of the new epoch  2 run id of the server, "" when it does not tell
--       3 µs that its memory goes back  4 µs from there for which leases
--       may be unknown  5 an epoch that gives way also where it is this server's,
--       "" for none
-- Reply 1 when a new epoch began, else 0
--
-- Twice is once: the epoch is in force then.

local known = redis.call('HMGET', KEYS[1], 'epoch', 'run')
if known[1] and (known[2] or '') == ARGV[2] and known[1] ~= ARGV[5] then return 0 end
local time = redis.call('TIME')
local since = time[1] * 1000000 + time[2] - tonumber(ARGV[3])
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'run', ARGV[2],
  'since', string.format('%d', since), 'blind', string.format('%d', since + tonumber(ARGV[4])))
return 1
