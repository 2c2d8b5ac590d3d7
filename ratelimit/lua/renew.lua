-- Renews the heartbeat of a worker and the leases it holds.
--
-- A lease is renewed only where its ledger and all its limits still hold it
-- unexpired: what others may have counted as free is never taken back.
--
-- KEYS  1 registry  2 alive  3 ledger of the worker, then the leases of each
--       concurrency limit
-- ARGV  1 worker  2 lease (µs)  3 number of leases
--       for each lease: id, n, n indices of its limits
-- Reply version of the registry, then the indices of the leases that are lost
--
-- Twice is once: the second time renews again.

local me, lease = ARGV[1], tonumber(ARGV[2])
local HOUR = 3600000 -- ms that keys outlive their use

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local life = math.ceil(lease / 1000) + HOUR

redis.call('ZADD', KEYS[2], now + lease, me)
redis.call('PEXPIRE', KEYS[2], 24 * HOUR)

local function holds(key, id)
  return tonumber(redis.call('ZSCORE', key, id) or 0) > now
end

local reply = {tonumber(redis.call('HGET', KEYS[1], 'version') or 0)}
local at = 3
for l = 1, tonumber(ARGV[3]) do
  local id, n = ARGV[at + 1], tonumber(ARGV[at + 2])
  local keys = {KEYS[3]}
  for i = 1, n do keys[i + 1] = KEYS[3 + tonumber(ARGV[at + 2 + i])] end
  at = at + 2 + n

  local held = true
  for _, key in ipairs(keys) do held = held and holds(key, id) end
  if held then
    for _, key in ipairs(keys) do redis.call('ZADD', key, 'XX', now + lease, id) end
  else
    table.insert(reply, l)
  end
end
for i = 3, #KEYS do redis.call('PEXPIRE', KEYS[i], life) end
return reply
