-- Begins an epoch of Redis's memory, unless the one in force is this server's.
--
-- KEYS  1 registry, then for each budget its money and its leases, then the state of each
--       quota
-- ARGV  1 name of the new epoch  2 run id of the server, "" when it does not tell
--       3 µs that its memory goes back  4 µs from there for which leases
--       may be unknown  5 an epoch that gives way also where it is this server's,
--       "" for none  6 number of budgets
-- Reply 1 when a new epoch began, else 0
--
-- A server that takes over from another may lack the last writes. Budgets and quotas that it
-- remembers are closed until they are told what was used; what they remember is the least.
-- Leases of a budget are forgotten, so that workers report their costs again.
--
-- Twice is once: the epoch is in force then.

local known = redis.call('HMGET', KEYS[1], 'epoch', 'run')
if known[1] and (known[2] or '') == ARGV[2] and known[1] ~= ARGV[5] then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local since = now - tonumber(ARGV[3])
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'run', ARGV[2],
  'since', string.format('%d', since), 'blind', string.format('%d', since + tonumber(ARGV[4])))
if not known[1] or known[1] == ARGV[5] then return 1 end

local at = 1
for _ = 1, tonumber(ARGV[6]) do
  local money, leases = KEYS[at + 1], KEYS[at + 2]
  at = at + 2
  local saved = redis.call('HMGET', money, 'used', 'base')
  local least = math.max(tonumber(saved[1] or 0), tonumber(saved[2] or 0))
  if saved[1] or saved[2] then redis.call('HSET', money, 'base', string.format('%d', least)) end
  redis.call('HDEL', money, 'used', 'told')
  redis.call('DEL', leases)
end
for i = at + 1, #KEYS do
  enter_epoch(KEYS[i], ARGV[1], now)
  if redis.call('HEXISTS', KEYS[i], 'reset') == 1 then
    redis.call('HSET', KEYS[i], 'closed', '1')
  else
    redis.call('DEL', KEYS[i])
  end
end
return 1
