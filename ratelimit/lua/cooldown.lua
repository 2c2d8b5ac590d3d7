-- Starts a cooldown: no call of a scope starts for a while.
--
-- KEYS  1 cooldowns, then the arrival times of rates
-- ARGV  1 name of the cooldown  2 µs, 0 when the provider gave no duration
--       3 "cool", or "parked" when a day's quota is used up, or "paced" when calls may
--       resume at the pace of the rates; then for each rate its interval (µs) and its burst;
--       or "out" when calls have no answer; then a random number of 0 to 999
-- Reply µs until calls may start again
--
-- When it is over, one call starts as a probe, and the others a second later. After a paced
-- one calls start at once: the rates' buckets are empty, so that at their pace none can be
-- refused by a provider that counts as they do. When one is, the next cooldown is not paced.
--
-- When "out" is over, one call starts, the others wait for its answer, see lua/answered.lua, and
-- another starts after a minute without one. A random part of up to a quarter is added.
--
-- Without a time it is a second, and twice as long each time that the first call
-- after a cooldown was refused too, up to a minute. Of several cooldowns of one
-- scope the latest end applies, with its word. Idempotent: waits never add up.

local SECOND = 1000000
local AGAIN = 10 * SECOND -- within which a refusal after a paced cooldown shows that the pace is too fast
local EPOCH = 1483228800  -- s, 2017: where redis_rate's times begin
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local saved = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local ends, probing, step = string.match(saved, '^(%d+) (%a+) (%d+)$')
ends, step = tonumber(ends or 0), tonumber(step or 0)

local word, wait = ARGV[3], tonumber(ARGV[2])
local probed = probing == 'probe' or probing == 'proving'
if wait == 0 then
  if probed then
    step = math.min(60 * SECOND, 2 * math.max(step, SECOND))
  elseif ends <= now and probing ~= 'out' or step == 0 then
    step = SECOND
  end
  wait = step
end
if word == 'out' then wait = wait + math.floor(wait * tonumber(ARGV[4]) / 4000) end
if word == 'paced' and not (saved == '' or probing == 'paced' and (ends > now or ends + AGAIN <= now)) then
  word = 'cool'
end
if not probed and ends - now > wait then
  wait, word = ends - now, probing
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%d %s %d', now + wait, word, step))
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), math.ceil(wait / 1000) + 3600000))
if word == 'paced' then
  -- The buckets are empty when it ends: one call starts, and another each interval.
  for i = 2, #KEYS do
    local interval, burst = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
    local tat = now + wait + math.ceil((burst - 1) * interval)
    local rate = redis.call('GET', KEYS[i])
    if not rate or math.floor((tonumber(rate) + EPOCH) * 1000000 + 0.5) < tat then
      local life = math.ceil((tat - now) / SECOND) + 3600
      tat = tat - EPOCH * SECOND
      redis.call('SET', KEYS[i], string.format('%d.%06d', math.floor(tat / SECOND), tat % SECOND), 'EX', life)
    end
  end
end
return wait
