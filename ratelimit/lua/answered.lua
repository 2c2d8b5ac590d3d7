-- Notes that a provider has answered a call, which ends its outage.
--
-- KEYS  1 cooldowns  2 troubles  3 answers
-- ARGV  1 worker  2 provider, then the names of the cooldowns of the call
-- Reply 1 when an outage has ended, else 0
--
-- An answer is "<time> <worker>", in µs, for the last worker that had one, and the same again
-- for the last other one, by provider. Idempotent.

local HOUR = 3600000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local me, provider = ARGV[1], ARGV[2]

local ended = 0
for i = 3, #ARGV do
  local word = string.match(redis.call('HGET', KEYS[1], ARGV[i]) or '', '^%d+ (%a+)')
  if word == 'out' or word == 'proving' then
    redis.call('HDEL', KEYS[1], ARGV[i])
    ended = 1
  end
  redis.call('HDEL', KEYS[2], ARGV[i], ARGV[i] .. '@' .. me)
end

local saved = redis.call('HGET', KEYS[3], provider) or ''
local last, worker, other = string.match(saved, '^(%d+) (%S+)(.*)$')
if last and worker ~= me then other = ' ' .. last .. ' ' .. worker end
redis.call('HSET', KEYS[3], provider, string.format('%d', now) .. ' ' .. me .. (other or ''))
redis.call('PEXPIRE', KEYS[3], 24 * HOUR)
return ended
