-- Calls in flight: a set of leases, scored by their ends.
--
-- A limit that adapts is cut to fewer than its own number, the cap, and grows again. `extra` is
-- a hash of what it is cut to (max), when it was lowered (cut) and the calls answered since
-- that count towards its growth (answered).

local leases = kind({
  woken_goes_last = true, -- any worker may take a slot: the next one that is free wakes the next waiter
})

-- adapt reads what a limit is cut to, which is then the greatest number in place of the cap.
local function adapt(limit)
  if not limit.adapts or limit.cap then return end
  local saved = redis.call('HMGET', limit.extra, 'max', 'cut', 'answered')
  limit.cap = limit.max
  limit.max = math.min(limit.cap, tonumber(saved[1] or limit.cap))
  limit.cut, limit.answered = tonumber(saved[2] or 0), tonumber(saved[3] or 0)
end

-- began_with is how many leases a limit had when the script began.
local function began_with(limit)
  limit.began = limit.began or flying(limit) + (limit.ended or 0)
  return limit.began
end

-- lower cuts a limit under which the provider refused a call, once for all calls
-- that had started when it was cut. One that was refused alone was not one too
-- many. A limit of none is closed, and stays as it is.
local function lower(limit, start)
  adapt(limit)
  local used = began_with(limit)
  if limit.cap == 0 or start < limit.cut or used < 2 then return end
  limit.max = math.max(1, math.floor(math.min(limit.max, used) * 7 / 10))
  limit.cut, limit.answered = now, 0
  limit.changed = true
end

-- grow raises a limit that is cut, when as many calls as it allows were answered
-- that started since and ended while it was used up.
local function grow(limit, start)
  adapt(limit)
  if limit.max >= limit.cap then return end
  limit.changed = true
  if start < limit.cut or began_with(limit) < limit.max then return end
  limit.answered = limit.answered + 1
  if limit.answered >= limit.max then
    limit.max = math.min(limit.cap, limit.max + math.max(1, math.floor(limit.cap / 50)))
    limit.answered = 0
  end
end

-- read finds how many leases a limit has free, and how many of them this worker may
-- take: while others wait, its even share, and when it is its turn at least an even part of the
-- free ones. Leases that have ended are counted out where they could make a limit look full.
function leases:read()
  if self.free then return end
  join(self)
  adapt(self)
  local used = redis.call('ZCARD', self.state)
  if used + asked.wanted >= self.max then used = sweep(self) end
  self.free = self.max - used
  self.mine = self.free
  if self.others > 0 then
    local all = self.others + 1
    local mine = math.max(0, math.floor(self.max / all) - (self.held or 0))
    if self.woken or self.place == 0 then
      local turn = math.ceil(self.free / all)
      if turn > mine then
        mine = turn
        self.turn = true
      end
    end
    self.mine = math.min(self.free, mine)
  end
end

function leases:end_lease(ending)
  if ending.held and self.adapts then
    if ending.refused == self.index then lower(self, ending.start) end
    if ending.answered then grow(self, ending.start) end
  end
  drop(self, ending)
  return false
end

-- keeps reports whether a worker may take back a slot that it gave up in this
-- script although others wait for it. When calls need a second limit that
-- others wait for too, the worker woken would find that one full, and the
-- slot would lie idle. It ends when the first of them has waited long.
local function keeps(limit, group)
  if (limit.ended or 0) <= 0 or limit.free <= 0 then return false end
  if front_waits(limit) > TURN then return false end
  for _, i in ipairs(group.limits) do
    local other = limits[i]
    if other ~= limit and other.kind == limit.kind and other.others > 0 then return true end
  end
  return false
end

function leases:has_room(group)
  if self.mine > 0 or keeps(self, group) then return nil end
  return self.free <= 0 and retry(self) or asked.patience
end

function leases:take(call, start)
  add(self, call, start)
  self.free, self.mine, self.ended = self.free - 1, self.mine - 1, (self.ended or 0) - 1
  if self.turn then self.had_turn = true end
end

function leases:save()
  prolong(self)
  if not self.changed then return end
  if self.max < self.cap then
    redis.call('HSET', self.extra, 'max', integer(self.max), 'cut', integer(self.cut), 'answered', integer(self.answered))
    redis.call('PEXPIRE', self.extra, HOUR)
  else
    redis.call('DEL', self.extra)
  end
end

function leases:next_turn()
  self:read()
  if self.free > 0 then return 0 end
  return self.later
end

function leases:in_use() return flying(self) end
