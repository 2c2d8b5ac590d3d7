-- Renews the heartbeat of a worker and the leases it holds.
--
-- A lease is renewed only if its ledger and all its limits still have it
-- unexpired: a lease that others may have counted as free is never taken back. Only when
-- Redis has lost its memory, and as long as no call is admitted for that reason
-- (no epoch has begun, or one has in which leases may be unknown), leases that it
-- does not know are accepted as they are, budgets reserve for them, and quotas count them,
-- unless their end has come first. A quota has at least the use that the worker was told of in an
-- earlier epoch of the same day, and so has a budget that is closed.
--
-- KEYS  1 registry  2 alive  3 ledger of the worker, then the set of leases of each limit
--       that has one, then the money of each budget and the state of each quota
-- ARGV  1 worker  2 lease (µs)  3 epoch in which the leases were granted; ? when the worker
--       cannot say that they have not ended: none is then accepted that Redis does not know
--       4 number of leases  5 of sets of leases  6 the earliest and 7 the latest time
--       that the worker expects (µs)
--       for each lease: id, µs until it ends without renewals (0: a lease), n,
--       n times the index of a set and with what its name ends there, m, m times the index of a budget's set and of its
--       money, its reservation of each (nano-USD), q, q indices of quotas among money and
--       quotas; then n, and for n quotas and budgets an index there, an epoch, the use that the
--       worker was told of in it, when the day began, and its reset (µs; 0 for a budget)
-- Reply the epoch in force, now (µs), how often the clock was set, then the indices of
--       the leases that are lost; or "", now and 0 when it is not a time that the worker
--       expects, and nothing was done
--
-- Idempotent: the second time renews again.

local me, lease, epoch = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local HOUR = 3600000 -- ms that keys outlive their use
local MONTH = 720 * HOUR -- that a budget's money outlives its last change
local NO_TIME = 1000000000000 -- scores below are no times: see admit/lease.lua

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < tonumber(ARGV[6]) or now > tonumber(ARGV[7]) then return {'', now, 0} end
local known = redis.call('HMGET', KEYS[1], 'epoch', 'blind', 'clock', 'since')
local forgotten = epoch ~= '?' and (known[1] or '') ~= epoch and (not known[1] or tonumber(known[2] or 0) > now)

-- A script whose first write takes no memory may end although Redis is full.
redis.call('ZREM', KEYS[2], '')
redis.call('ZADD', KEYS[2], now + lease, me)
redis.call('PEXPIRE', KEYS[2], 24 * HOUR)

-- remember_money makes a closed budget have at least what a worker was told of it before the epoch.
local function remember_money(money, used)
  local saved = redis.call('HMGET', money, 'base', 'told')
  if saved[2] or tonumber(saved[1] or 0) >= used then return end
  redis.call('HSET', money, 'base', string.format('%d', used))
  redis.call('PEXPIRE', money, MONTH)
end

local function holds(key, id)
  return tonumber(redis.call('ZSCORE', key, id) or 0) > now
end

local reply, longest = {known[1] or '', now, tonumber(known[3] or 0)}, {}
local sets = tonumber(ARGV[5])
local at = 7
for l = 1, tonumber(ARGV[4]) do
  local id, counts, n = ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local keys = {}
  for i = 1, n do keys[i] = {KEYS[3 + tonumber(ARGV[at + 2 + 2 * i])], id .. ARGV[at + 3 + 2 * i]} end
  at = at + 3 + 2 * n
  local moneys, ended = {}, false
  for i = 1, tonumber(ARGV[at + 1]) do
    local set, key = ARGV[at + 2 * i], ARGV[at + 1 + 2 * i]
    moneys[i] = {set = KEYS[3 + tonumber(set)], key = KEYS[3 + sets + tonumber(key)]}
    ended = ended or tonumber(redis.call('ZSCORE', moneys[i].set, id) or NO_TIME) < NO_TIME
  end
  local cost = ARGV[at + 1 + 2 * #moneys + 1]
  at = at + 2 + 2 * #moneys
  local quotas = at + 1
  at = quotas + tonumber(ARGV[quotas])

  local known_here = holds(KEYS[3], id)
  local held = known_here
  for _, key in ipairs(keys) do held = held and holds(key[1], key[2]) end
  if held or forgotten and not ended then
    for _, money in ipairs(moneys) do
      if not redis.call('ZSCORE', money.set, id) then
        redis.call('HINCRBY', money.key, 'used', cost)
        redis.call('PEXPIRE', money.key, MONTH)
      end
    end
    for q = quotas + 1, known_here and not forgotten and quotas or at do
      ran_before(KEYS[3 + sets + tonumber(ARGV[q])], known[1] or '', id, now)
    end
    redis.call('ZADD', KEYS[3], now + lease, id)
    for _, key in ipairs(keys) do
      redis.call('ZADD', key[1], 'GT', now + math.max(lease, counts), key[2])
      longest[key[1]] = math.max(longest[key[1]] or 0, counts)
    end
  else
    table.insert(reply, l)
  end
end
for q = 1, known[1] and tonumber(ARGV[at + 1]) or 0 do
  local told = at + 5 * q - 3
  if ARGV[told + 1] ~= known[1] then
    local key, used = KEYS[3 + sets + tonumber(ARGV[told])], tonumber(ARGV[told + 2])
    if ARGV[told + 4] == '0' then
      remember_money(key, used)
    else
      remember_use(key, known[1], used, tonumber(ARGV[told + 3]), tonumber(ARGV[told + 4]), tonumber(known[4] or 0), now)
    end
  end
end
for i = 3, 3 + sets do
  local life = math.ceil(math.max(lease, longest[KEYS[i]] or 0) / 1000) + HOUR
  if redis.call('PTTL', KEYS[i]) < life then redis.call('PEXPIRE', KEYS[i], life) end
end
return reply
