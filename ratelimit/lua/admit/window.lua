-- Units started in a span. They are counted in slots; a slot leaves when all of it is older
-- than the span. `state` is a hash of units by slot, with their total and the oldest slot.

local window = kind({})

-- read reads how many units were started in the span that counts.
function window:read()
  if self.total then return end
  join(self)
  self.adds = {}
  local oldest = math.floor((now - self.span) / self.slot)
  local saved = redis.call('HMGET', self.state, 'total', 'oldest')
  self.total, self.oldest = tonumber(saved[1] or 0), tonumber(saved[2] or oldest)
  if self.oldest >= oldest then return end
  self.changed = true
  if oldest - self.oldest > (self.span + horizon) / self.slot + 2 then
    redis.call('DEL', self.state)
    self.total = 0
  else
    local gone = {}
    for slot = self.oldest, oldest - 1 do table.insert(gone, integer(slot)) end
    for _, units in ipairs(redis.call('HMGET', self.state, unpack(gone))) do
      self.total = self.total - tonumber(units or 0)
    end
    redis.call('HDEL', self.state, unpack(gone))
  end
  self.oldest = oldest
end

-- count adds units to the slot of a time.
local function count(limit, when, units)
  local slot = math.floor(when / limit.slot)
  -- A call of before the clock was set back starts later than any could.
  if slot < limit.oldest or when > now + horizon then return end
  limit.adds[slot] = (limit.adds[slot] or 0) + units
  limit.total = limit.total + units
  limit.changed = true
end

-- opens_in is the time until so many units fit into a window. More than it
-- holds fit when it is empty, and leave a debt. A window that Redis does not remember was full
-- when its memory began.
local function opens_in(limit, units)
  local least = 0
  if since > 0 then least = math.max(0, since + horizon + limit.span + limit.slot - now) end
  local excess = limit.total + math.min(units, limit.max) - limit.max
  if excess <= 0 then return least end
  local last = math.floor((now + horizon) / limit.slot)
  local slots = {}
  for slot = limit.oldest, last do table.insert(slots, integer(slot)) end
  for i, saved in ipairs(redis.call('HMGET', limit.state, unpack(slots))) do
    local slot = limit.oldest + i - 1
    excess = excess - tonumber(saved or 0) - (limit.adds[slot] or 0)
    if excess <= 0 then return math.max(least, (slot + 1) * limit.slot + limit.span - now) end
  end
  return math.max(least, limit.slot + limit.span)
end

function window:settle(ending)
  local more = ending.unused and -cost(self, ending) or beyond(self, ending)
  if more == 0 then return end
  self:read()
  count(self, ending.start, more)
  self.freed = self.freed or more < 0
end

function window:tighten(left)
  self:read()
  local excess = self.max - self.total - left
  if excess > 0 then count(self, now, excess) end
end

-- A large call is not passed for ever by small ones.
function window:starts_in(group, call)
  self:read()
  local own = opens_in(self, cost(self, call))
  local passed = self.aged and not group.aged
  if own <= horizon and (passed or (self.ahead > 0 and front_waits(self) > TURN)) then
    return asked.patience, asked.patience, own
  end
  return own, own
end

function window:take(call, start)
  count(self, now + start, cost(self, call))
  self.had_turn = self.others > 0
end

function window:save()
  if not self.changed then return end
  for slot, units in pairs(self.adds) do
    redis.call('HINCRBY', self.state, integer(slot), units)
  end
  redis.call('HSET', self.state, 'total', integer(self.total), 'oldest', integer(self.oldest))
  redis.call('PEXPIRE', self.state, math.ceil((self.span + 2 * self.slot) / 1000) + HOUR)
end

function window:next_turn(left)
  if self.freed or left then return 0 end
end
