-- Moves what is stored with Redis's clock, which was set forward or back, and begins
-- an epoch, so that nothing is admitted before every worker has reported its leases.
--
-- KEYS  1 registry  2 alive  3 cooldowns, then ledgers of workers, then for each
--       limit its state and its waiters, then the current cut of each adaptive limit
-- ARGV  1 how often the clock had been set when the worker's clock last agreed with it
--       2 by how much the clock was set at most  3 at least  4 lease, all in µs
--       5 name of the new epoch, without its memory  6 of the one that the worker knows  7 worker
--       8 prefix of the wake channels  9 number of ledgers  10 of limits, then for
--       each limit its kind and the length of its slot, or a quota's next reset (µs)
-- Reply 1, or 0 when another worker has done it or no epoch is in force, or -1 when other
-- workers disagree:
--       it is this worker's clock that stopped
--
-- Idempotent: the second time the clock has been set once more than ARGV 1 says.

local HOUR = 3600000000
local NO_TIME = 1000000000000 -- scores below are no times: see admit/lease.lua
local EPOCH = 1483228800 -- s, 2017: where redis_rate's times begin
local before, by, least, lease = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local epoch, me, channel = ARGV[5], ARGV[7], ARGV[8]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local known = redis.call('HMGET', KEYS[1], 'clock', 'since', 'epoch')
if not known[3] or (known[1] or '0') ~= before then return 0 end
-- No heartbeat can have been renewed in the time that a clock leapt over.
if least > 0 then
  local heartbeats = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
  for i = 1, #heartbeats, 2 do
    local renewed = heartbeats[i + 1] - lease
    if heartbeats[i] ~= me and renewed <= now and renewed > now - least then return -1 end
  end
end

local function shift(key)
  local members = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  for i = 1, #members, 2 do
    local score = tonumber(members[i + 1])
    if score >= NO_TIME then redis.call('ZADD', key, string.format('%d', score + by), members[i]) end
  end
end

-- Slots move by whole ones, so that none leaves its window too early.
local function shift_window(key, slot)
  local fields = redis.call('HGETALL', key)
  if #fields == 0 then return end
  local life, slots = redis.call('PTTL', key), math.ceil(by / slot)
  redis.call('DEL', key)
  for i = 1, #fields, 2 do
    local name, value = fields[i], fields[i + 1]
    if name == 'oldest' then
      value = string.format('%d', value + slots)
    elseif name ~= 'total' then
      name = string.format('%d', name + slots)
    end
    redis.call('HSET', key, name, value)
  end
  if life > 0 then redis.call('PEXPIRE', key, life) end
end

shift(KEYS[2])
local cooldowns = redis.call('HGETALL', KEYS[3])
for i = 1, #cooldowns, 2 do
  local ends, rest = string.match(cooldowns[i + 1], '^(%d+)( .*)$')
  if ends then redis.call('HSET', KEYS[3], cooldowns[i], string.format('%d', ends + by) .. rest) end
end
local at = 3
for _ = 1, tonumber(ARGV[9]) do
  at = at + 1
  shift(KEYS[at])
end
local cuts = at + 2 * tonumber(ARGV[10])
for i = 1, tonumber(ARGV[10]) do
  local kind, slot = ARGV[9 + 2 * i], tonumber(ARGV[10 + 2 * i])
  local state, waiters = KEYS[at + 1], KEYS[at + 2]
  at = at + 2
  shift(waiters)
  if kind == 'leases' or kind == 'budget' or kind == 'weight' then
    shift(state)
  elseif kind == 'window' then
    shift_window(state, slot)
  elseif kind == 'quota' then
    -- The day in force has not ended: its use counts until the next reset.
    if slot > now and tonumber(redis.call('HGET', state, 'reset') or 0) > now - by then
      redis.call('HSET', state, 'reset', string.format('%d', slot))
      redis.call('PEXPIRE', state, math.ceil((slot - now) / 1000) + 86400000) -- as in admit/quota.lua
    end
  elseif kind == 'rate' then
    local saved = redis.call('GET', state)
    if saved then
      local tat = math.floor((tonumber(saved) + EPOCH) * 1000000 + 0.5) + by - EPOCH * 1000000
      redis.call('SET', state, string.format('%d.%06d', math.floor(tat / 1000000), tat % 1000000), 'KEEPTTL')
    end
  end
end
for i = cuts + 1, #KEYS do
  local cut = redis.call('HGET', KEYS[i], 'cut')
  if cut then redis.call('HSET', KEYS[i], 'cut', string.format('%d', cut + by)) end
end

-- An epoch that the worker does not know began on the clock as it is now. A clock that
-- is set far forward may have ended the life of keys.
local since = tonumber(known[2] or 0)
if by >= HOUR / 2 then
  since = now
elseif since > 0 and known[3] == ARGV[6] then
  since = since + by
end
redis.call('HSET', KEYS[1], 'epoch', epoch .. '@' .. memory_of(known[3]), 'since', string.format('%d', since),
  'blind', string.format('%d', now + lease), 'clock', string.format('%d', before + 1))
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], now, '+inf')) do
  redis.call('PUBLISH', channel .. worker, 'limits')
end
return 1
