-- Money: a set of leases, scored by their ends, and in `extra` what is spent and reserved.

local MONTH = 720 * HOUR      -- that a budget's money outlives its last change

local budget = kind({})

-- read reads the amount spent and reserved. A budget is closed until it is told
-- what was spent before Redis began to count.
function budget:read()
  if self.used then return end
  join(self)
  local saved = redis.call('HMGET', self.extra, 'used', 'told')
  self.known, self.used = saved[1], tonumber(saved[1] or 0)
  self.closed = not saved[2]
end

-- recounted counts the cost and the reservation of a call whose lease the budget has
-- forgotten since the epoch in which the lease was granted. A budget that has forgotten nothing
-- has counted a call whose lease is gone.
local function recounted(limit, ending)
  local score = redis.call('ZSCORE', limit.state, ending.id)
  if score then return tonumber(score) < NO_TIME end
  if not ending.epoch or ending.epoch == epoch then return false end
  limit:read()
  if not limit.known or memory_of(ending.epoch) ~= memory_of(epoch) then
    local spent = cost(limit, ending)
    if ending.keep == 0 then
      spent = ending.unused and 0 or math.max(0, spent + cost(limit, ending.more or {}))
    end
    limit.used, limit.known, limit.changed = limit.used + spent, true, true
  end
  redis.call('ZADD', limit.state, 0, ending.id)
  limit.latest = math.max(limit.latest or 0, now + lease)
  return true
end

-- remember_end notes that a budget has counted a call that ends, if it is closed, because the
-- results store that is to report what was spent may have the call as well; or if the lease was
-- renewed after a loss of memory while its end was on its way, because the end may come again.
local function remember_end(limit, ending)
  limit:read()
  if not limit.closed and (not ending.epoch or ending.epoch == epoch) then return end
  redis.call('ZADD', limit.state, 0, ending.id)
  limit.latest = math.max(limit.latest or 0, now + lease)
end

function budget:end_lease(ending)
  if recounted(self, ending) or not drop(self, ending) then return false end
  remember_end(self, ending)
  return true
end

function budget:settle(ending)
  local more = ending.unused and -cost(self, ending) or beyond(self, ending)
  if more == 0 then return end
  self:read()
  if self.known then
    self.used = math.max(0, self.used + more)
    self.changed = true
  end
end

-- A budget without room refuses until calls in flight have left it some, or for good when
-- there are none.
function budget:affords(call)
  self:read()
  if self.closed then return lease end
  local money = cost(self, call)
  if money == 0 or self.used + money <= self.max then return nil end
  if sweep(self) > 0 then return retry(self) end
  return -1
end

function budget:take(call, start)
  add(self, call, start)
  self.used = self.used + cost(self, call)
  self.changed = true
end

function budget:save()
  prolong(self)
  if not self.changed then return end
  redis.call('HSET', self.extra, 'used', integer(self.used))
  redis.call('PEXPIRE', self.extra, MONTH)
end

-- in_use returns what is spent and reserved, which the worker remembers in case Redis forgets it;
-- of a closed budget -1, because what it has counted is less than what the worker may remember.
function budget:in_use()
  self:read()
  return self.closed and -1 or self.used
end

function budget:next_turn(left)
  if (self.ended or 0) > 0 or left then return 0 end
end
