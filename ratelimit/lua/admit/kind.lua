-- The kinds of limits. Each is a table of the same methods, in a file of its own. A method
-- that a kind omits does what it does here.

local any = {}

-- member is the name of a call's lease in the limit's set.
function any:member(call) return call.id end

-- read reads what Redis remembers, at the first use.
function any:read() end

-- end_lease ends a lease under the limit, or lets it last for keep, and returns
-- whether its usage is settled now.
function any:end_lease(ending) return ending.held end

-- settle charges what a call used beyond its reservation, or gives the rest back.
function any:settle(ending) end

-- tighten makes the limit give no more than its provider says is left of it.
function any:tighten(left) end

-- affords returns nil when the limit has room at all for a call's cost. Else it returns the µs
-- until it is worth asking again, -1 for never.
function any:affords(call) end

-- starts_in returns the time until the limit lets a group's next call start, and in how
-- many µs it is worth asking: waiters ahead of it come first. If the former includes those
-- waiters, the time without them is the third result.
function any:starts_in(group, call) return 0, 0 end

-- has_room returns nil when the worker may take a lease for a call. Else it returns the µs until
-- it is worth asking again.
function any:has_room(group, call) end

-- take charges an admitted call.
function any:take(call, start) end

-- save writes what the limit has come to, when it has changed.
function any:save() end

-- next_turn returns in how many µs the turn of the next waiter comes, nil when this script
-- changed nothing for it. left: the worker has left the wait queue.
function any:next_turn(left) end

-- in_use counts the leases held, for a limit of leases, and the use of a quota or a budget (-1: unknown).
function any:in_use() return 0 end

-- kind completes the methods of a kind, which is a limit's metatable.
local function kind(methods)
  for name, method in pairs(any) do methods[name] = methods[name] or method end
  methods.__index = methods
  return methods
end

-- cost is what a usage of so much input, output and money costs under a limit.
local function cost(limit, used)
  local counts = limit.counts
  if not counts then return 1 end
  if counts == 'tokens' then return (used.input or 0) + (used.output or 0) end
  return used[counts] or 0
end

-- beyond is what a call cost more than its reservation; below 0 for less, unless the limit
-- gives nothing back.
local function beyond(limit, ending)
  if not limit.counts or not ending.more then return 0 end
  local more = cost(limit, ending.more)
  if limit.charged then return math.max(0, more) end
  return more
end
