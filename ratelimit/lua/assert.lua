-- Counts a background call again if Redis has forgotten that it is running.
--
-- KEYS  1 ledger of background calls  2 background calls, then the set of leases of each
--       limit that has one, then the money of each budget, then the mark of a call that
--       has ended
-- ARGV  1 name of the background call  2 µs until its latest end  3 data that its end
--       needs  4 number of sets of leases  5 its reservation (nano-USD),
--       then for each set with what its name ends there, then for each budget the index of
--       its set
-- Reply 1 when something had been forgotten, else 0; 0 for a call that has ended
--
-- Idempotent: the second time everything knows the call.

local MONTH = 2592000000 -- ms that a budget's money outlives its last change
if redis.call('EXISTS', KEYS[#KEYS]) == 1 then return 0 end
local call, left, sets = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4])
local time = redis.call('TIME')
local ends = time[1] * 1000000 + time[2] + left
for i = 6 + sets, #ARGV do
  local money = KEYS[2 + i - 5]
  if not redis.call('ZSCORE', KEYS[2 + tonumber(ARGV[i])], call) then
    redis.call('HINCRBY', money, 'used', ARGV[5])
    redis.call('PEXPIRE', money, MONTH)
  end
end
local known = redis.call('HSETNX', KEYS[2], call, ARGV[3])
local life = math.ceil(left / 1000) + 3600000
for i = 1, 2 + sets do
  local name = i > 2 and call .. ARGV[3 + i] or call
  if i ~= 2 and not redis.call('ZSCORE', KEYS[i], name) then
    redis.call('ZADD', KEYS[i], ends, name)
    known = 1
  end
  if redis.call('PTTL', KEYS[i]) < life then redis.call('PEXPIRE', KEYS[i], life) end
end
return known
