-- Starts a cooldown: no call of a scope starts for a while.
--
-- KEYS  1 cooldowns
-- ARGV  1 name of the cooldown  2 µs, 0 when the provider gave no duration
--       3 "cool", or "parked" when a day's quota is used up
-- Reply µs until calls may start again
--
-- Without a time it is a second, and twice as long each time that the first call
-- after a cooldown was refused too, up to a minute. Of several cooldowns of one
-- scope the latest end applies, with its word. Idempotent: waits never add up.

local SECOND = 1000000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local saved = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local ends, probing, step = string.match(saved, '^(%d+) (%a+) (%d+)$')
ends, step = tonumber(ends or 0), tonumber(step or 0)

local wait = tonumber(ARGV[2])
if wait == 0 then
  if probing == 'probe' then
    step = math.min(60 * SECOND, 2 * math.max(step, SECOND))
  elseif ends <= now then
    step = SECOND
  end
  wait = step
end
local word = ARGV[3]
if probing ~= 'probe' and ends - now > wait then
  wait, word = ends - now, probing
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%d %s %d', now + wait, word, step))
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), math.ceil(wait / 1000) + 3600000))
return wait
