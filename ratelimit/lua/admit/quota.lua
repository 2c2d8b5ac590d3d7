-- Calls started between two resets of a day's quota. `state` is described in lua/quota.lua.

local SPREAD = 500000  -- µs from the start of a call under a quota until it has arrived (quotaSpread)
local DAY = 24 * HOUR  -- as HOUR: in the embedded Redis, a key does not live longer when the
                       -- clock is set back

local quota = kind({})

-- read reads the use until the next reset. A quota that Redis does not remember stays closed
-- until it is seeded, or until the reset. A reset that is stored may be later than the next one,
-- because the clock was set back since: the use counts until the next one.
function quota:read()
  if self.reset then return end
  join(self)
  self.began, self.reset = day_of(self)
  local saved = redis.call('HMGET', self.state, 'used', 'reset', 'closed')
  self.used = 0
  if saved[2] and tonumber(saved[2]) > now then
    self.used, self.closed = tonumber(saved[1] or 0), saved[3]
  else
    self.anew = true
    self.closed = since > self.began
  end
end

-- save: seeds of an earlier day are removed with it.
function quota:save()
  if not self.changed then return end
  if self.anew then
    redis.call('DEL', self.state)
    redis.call('HSET', self.state, 'epoch', epoch, 'whole', '1')
  else
    enter_epoch(self.state, epoch, now)
  end
  redis.call('HSET', self.state, 'used', integer(self.used), 'reset', integer(self.reset))
  redis.call('PEXPIRE', self.state, math.ceil((self.reset - now) / 1000) + DAY)
end

-- end_lease counts a call that was in flight when Redis lost its memory.
function quota:end_lease(ending)
  if ending.forgotten then
    self:save()
    ran_before(self.state, epoch, ending.id, now)
    self.reset, self.closed, self.anew, self.changed = nil, nil, nil, nil -- to be read again
  end
  return ending.held
end

function quota:settle(ending)
  local more = ending.unused and -cost(self, ending) or beyond(self, ending)
  if more == 0 then return end
  self:read()
  if not self.closed and ending.start >= self.began then
    self.used = math.max(0, self.used + more)
    self.changed = true
  end
end

-- What starts at the end of a day may arrive on the next, for which it was not counted.
function quota:starts_in(group, call)
  self:read()
  local units = cost(self, call)
  if self.closed or self.reset - now <= SPREAD + horizon or (self.used > 0 and self.used + units > self.max) then
    return self.reset - now, self.reset - now
  end
  return 0, 0
end

-- in_use returns the use, which the worker remembers in case Redis forgets it; of a closed quota -1,
-- because what it has counted is less than what the worker may remember.
function quota:in_use()
  self:read()
  return self.closed and -1 or self.used
end

function quota:take(call)
  self.used = self.used + cost(self, call)
  self.changed = true
end
