-- Input tokens of batches that have not ended: a set of leases, scored by their ends. Each is
-- '<lease> <weight>', so that a weight is never there without its lease, and their sum never
-- differs from what is in flight.

local weight = kind({})

-- member: a call is admitted, and ends, with the same input.
function weight:member(call) return call.id .. ' ' .. integer(cost(self, call)) end

-- read sums the weights of the leases that have not ended.
function weight:read()
  if self.sum then return end
  join(self)
  sweep(self)
  self.sum = 0
  for _, member in ipairs(redis.call('ZRANGE', self.state, 0, -1)) do
    self.sum = self.sum + tonumber(string.match(member, '%d+$'))
  end
end

-- end_lease: all of the weight comes back, whatever the call used.
function weight:end_lease(ending)
  drop(self, ending)
  return false
end

-- A large call is not passed for ever by small ones.
function weight:has_room(group, call)
  if self.sum + cost(self, call) > self.max then return retry(self) end
  local passed = self.aged and not group.aged
  if passed or self.ahead > 0 and front_waits(self) > TURN then return asked.patience end
end

function weight:take(call, start)
  add(self, call, start)
  self.sum = self.sum + cost(self, call)
  if self.others > 0 then
    self.had_turn, self.ahead = true, self.others
  end
end

function weight:save() prolong(self) end

-- The next waiter asks when there is more room, and when one that was ahead of it is not any more.
function weight:next_turn(left)
  if (self.ended or 0) > 0 or self.had_turn or left then return 0 end
  return self.later
end
