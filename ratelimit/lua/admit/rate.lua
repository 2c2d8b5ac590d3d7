-- Units started a period, paced: the generic cell rate algorithm. `state` is its theoretical
-- arrival time (TAT), in redis_rate's format.

local GRACE = 250000     -- µs a full rate may lie idle before a waiter has lost its turn
local EPOCH = 1483228800 -- s, 2017: where redis_rate's times begin

local rate = kind({
  first_wakes_none = true, -- it is its own turn
})

-- read reads the arrival time. When Redis's memory began the rate was used up by starts
-- granted as far ahead as possible; a time saved earlier may lack the last of them. A
-- waiter that leaves the rate idle past its turn loses it.
function rate:read()
  if self.tat then return end
  join(self)
  local saved = redis.call('GET', self.state)
  self.tat = saved and math.floor((tonumber(saved) + EPOCH) * 1000000 + 0.5) or 0
  if since > 0 then
    self.tat = math.max(self.tat, since + horizon + math.ceil(self.burst * self.interval))
  end
  if self.ahead > 0 and self.tat + GRACE <= now then first_leaves(self) end
  self.taken = 0
end

-- free_in is the time until a rate lets a call of so many units start; below 0
-- when more could start at once. One that is larger than the burst waits for a
-- full bucket and leaves a debt.
local function free_in(limit, units)
  return math.max(limit.tat, now) +
    math.ceil((math.min(units, limit.burst) - limit.burst) * limit.interval) - now
end

-- A bucket gives nothing back: unused tokens may have been lost in a full bucket since, and
-- only its history would tell. A start that never came is given back if no call was admitted
-- after it.
function rate:settle(ending)
  local units, more = cost(self, ending), math.max(0, beyond(self, ending))
  if ending.unused and ending.start > now then
    self:read()
    local over = math.max(0, units - self.burst)
    if math.abs(self.tat - ending.start - math.ceil((self.burst + over) * self.interval)) < 2 then
      self.tat = self.tat - math.ceil(units * self.interval)
      self.changed = true
    end
  elseif more ~= 0 then
    self:read()
    self.tat = self.tat + math.ceil(more * self.interval)
    self.changed = true
  end
end

-- tighten: of a rate no count is known, only that nothing is saved up.
function rate:tighten()
  self:read()
  local empty = now + math.ceil(self.burst * self.interval)
  if self.tat < empty then
    self.tat = empty
    self.changed = true
  end
end

function rate:starts_in(group, call)
  self:read()
  local units = cost(self, call)
  local step = math.max(1, units * self.interval)
  self.share = math.max(1, math.floor(horizon / step / (self.others + 1)))
  local own = free_in(self, units)
  return own, own + self.ahead * self.share * step
end

function rate:take(call, start)
  self.tat = math.max(self.tat, now + start) + math.ceil(cost(self, call) * self.interval)
  self.changed = true
  self.taken = self.taken + 1
  if self.others > 0 and self.taken >= self.share then
    self.ahead, self.had_turn = self.others, true
  end
end

-- save: the time outlives its use, because a call that ends later may leave a debt.
function rate:save()
  if not self.changed then return end
  local tat = self.tat - EPOCH * 1000000
  redis.call('SET', self.state, string.format('%d.%06d', math.floor(tat / 1000000), tat % 1000000),
    'EX', math.max(0, math.ceil((self.tat - now) / 1000000)) + HOUR / 1000)
end

function rate:next_turn(left)
  if not self.changed and not left then return nil end
  self:read()
  return math.max(0, free_in(self, 1) - asked.lead)
end
