-- Notes that calls of a worker have failed one after another, and decides whose trouble it is.
--
-- KEYS  1 troubles  2 answers, see lua/answered.lua  3 alive
-- ARGV  1 worker  2 name of the cooldown that the trouble may lead to  3 provider
--       4 µs since the first of the calls failed
--       5 so many µs: it is the worker's own trouble if another that lives does not have it, and
--       that first call or an answer to another was within them; or -1: in any case; or 0:
--       if another has had an answer within 6 so many µs
--       7 class of the failure  8 the provider's words
-- Reply 1 when it is this worker's own, else 0; 1 when it was not known before, else 0; 1 when
-- the provider has answered any worker within a day, else 0
--
-- A trouble is "<since> <last> <class> <words>", in µs, by name, and by "name@worker" if it is a
-- worker's own. Idempotent.

local HOUR = 3600000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local me, name, provider, within = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[5])
local first = now - tonumber(ARGV[4])

local saved = redis.call('HGET', KEYS[2], provider)
local last, worker, before = string.match(saved or '', '^(%d+) (%S+) ?(%d*)')
local other = tonumber(worker ~= me and last or before) or 0
if other > now then other = 0 end -- the clock was set back

-- spared reports whether another worker lives that does not have the trouble. It is everybody's
-- from the first report that finds none, until an answer.
local function spared()
  if redis.call('HEXISTS', KEYS[1], name) == 1 then return false end
  for _, w in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], now, '+inf')) do
    if w ~= me and redis.call('HEXISTS', KEYS[1], name .. '@' .. w) == 0 then return true end
  end
  return false
end

local own = within < 0
if within == 0 then
  own = other >= now - tonumber(ARGV[6])
elseif within > 0 and (other >= now - within or first >= now - within) then
  own = spared()
end

local field = own and name .. '@' .. me or name
local known = redis.call('HGET', KEYS[1], field)
local since = tonumber(string.match(known or '', '^%d+') or first)
if since > first then since = first end
redis.call('HSET', KEYS[1], field, string.format('%d %d %s %s', since, now, ARGV[7], ARGV[8]))
redis.call('PEXPIRE', KEYS[1], 24 * HOUR)
return {own and 1 or 0, known and 0 or 1, saved and 1 or 0}
