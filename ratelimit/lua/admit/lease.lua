-- What limits with a set of leases have in common.

local NO_TIME = 1000000000000 -- scores below are no times: a budget has counted such a call at its end

-- drop ends a lease in a limit's set, or lets it last for keep. It returns whether the
-- limit had it until now.
local function drop(limit, ending)
  if ending.keep == 0 then
    local was = redis.call('ZREM', limit.state, limit:member(ending))
    limit.ended = (limit.ended or 0) + was
    return was == 1
  end
  redis.call('ZADD', limit.state, 'XX', 'LT', now + ending.keep, limit:member(ending))
  limit.later = math.min(limit.later or ending.keep, ending.keep)
  return false
end

-- add puts the lease of a call into a limit's set.
local function add(limit, call, start)
  local ends = now + start + (call.counts or lease)
  redis.call('ZADD', limit.state, ends, limit:member(call))
  limit.latest = math.max(limit.latest or 0, ends, now + horizon + lease)
end

-- prolong keeps a set for an hour beyond its latest lease.
local function prolong(limit)
  if not limit.latest then return end
  local life = math.ceil((limit.latest - now) / 1000) + HOUR
  if redis.call('PTTL', limit.state) < life then redis.call('PEXPIRE', limit.state, life) end
end

-- flying counts the leases that have not ended.
local function flying(limit)
  return redis.call('ZCOUNT', limit.state, '(' .. integer(now), '+inf')
end

-- sweep removes leases that have ended, and returns how many are left. What a budget has noted
-- of calls that it has counted stays as long as the set.
local function sweep(limit)
  redis.call('ZREMRANGEBYSCORE', limit.state, NO_TIME, now)
  return flying(limit)
end

-- retry is when to ask again for a lease: when the first one held may end, or
-- when the worker woken instead has not come.
local function retry(limit)
  local first = redis.call('ZRANGEBYSCORE', limit.state, '(' .. integer(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if not first[2] then return asked.patience end
  return math.min(asked.patience, math.max(1, first[2] - now))
end
