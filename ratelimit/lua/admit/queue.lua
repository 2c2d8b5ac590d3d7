-- The wait queue of a limit: the workers with calls that wait for it, in order.

-- lives says whether a worker's heartbeat holds.
local function lives(worker)
  return tonumber(redis.call('ZSCORE', alive, worker) or 0) > now
end

-- join finds the worker's place in a limit's wait queue (nil: none), how many other workers
-- are in it, and how many of those are ahead. Dead workers leave when they reach the front.
local function join(limit)
  if limit.others then return end
  local n = redis.call('ZCARD', limit.waiters)
  limit.place = false
  if n > 0 then
    limit.place = redis.call('ZRANK', limit.waiters, me)
    while n > 0 and limit.place ~= 0 do
      local first = redis.call('ZRANGE', limit.waiters, 0, 0)[1]
      if lives(first) then break end
      redis.call('ZREM', limit.waiters, first)
      n = n - 1
      if limit.place then limit.place = limit.place - 1 end
    end
    if limit.place then n = n - 1 end
  end
  limit.others = n
  limit.ahead = limit.place or n
end

-- first_leaves takes the first worker, who is another, out of a wait queue.
local function first_leaves(limit)
  redis.call('ZREMRANGEBYRANK', limit.waiters, 0, 0)
  limit.others = limit.others - 1
  limit.ahead = 0
  if limit.place then limit.place = limit.place - 1 end
end

-- front_waits is how long the first worker of a wait queue has been there, in µs.
local function front_waits(limit)
  local first = redis.call('ZRANGE', limit.waiters, 0, 0, 'WITHSCORES')
  return first[2] and now - first[2] or 0
end

-- settle_place puts the worker into a limit's wait queue or takes it out, and returns whether
-- it waits. It keeps its place without need only where the next call would have to wait.
local function settle_place(limit)
  local keeps = limit.stays and limit.place and (limit.others > 0 or limit.free == 0)
  local waits = limit.refused or limit.waits or keeps
  if not waits then
    if limit.place then redis.call('ZREM', limit.waiters, me) end
  elseif not limit.place then
    redis.call('ZADD', limit.waiters, now, me)
    redis.call('PEXPIRE', limit.waiters, HOUR)
  elseif limit.had_turn then
    redis.call('ZADD', limit.waiters, now, me)
  end
  return waits
end

-- wake tells the first other waiter that its turn comes in so many µs. A waiter
-- that no longer listens leaves the wait queue, and the next is told.
local function wake(limit, wait)
  while true do
    local front = redis.call('ZRANGE', limit.waiters, 0, 1)
    local worker = front[1]
    if worker == me then
      if limit.first_wakes_none then return end
      worker = front[2]
    end
    if not worker then return end
    if lives(worker) and redis.call('PUBLISH', asked.channel .. worker,
        string.format('%s %d', limit.waiters, wait)) > 0 then
      if limit.woken_goes_last and wait == 0 then redis.call('ZADD', limit.waiters, now, worker) end
      return
    end
    redis.call('ZREM', limit.waiters, worker)
  end
end
