-- Ends leases of one worker and admits waiting calls of it, in one step.
--
-- A call is admitted under all its limits or under none. Calls come in groups
-- that share a set of limits; the groups take turns, a group keeps its order,
-- and its first refusal ends it.
--
-- KEYS  1 registry  2 alive  3 ledger of the worker
--       then for each limit: its state (leases, or theoretical arrival time)
--       and its waiters
-- ARGV  1 version of the registry that the limits were read at; "" when only
--         leases end
--       2 worker  3 prefix of the wake channels
--       4 lease  5 horizon  6 lead  7 patience, all in µs
--       8 number of limits  9 of leases that end  10 of groups
--       for each limit: "c" or "r", greatest number of leases | interval in µs,
--         burst, leases that the worker holds beside those that end here,
--         1 when other calls of the worker wait for it, 1 when it was woken,
--         1 when the worker keeps its place in the line although no call waits
--       for each lease that ends: id, µs to keep it, its start (µs) when it was
--         never used and 0 otherwise, n, n indices of its limits
--       for each group: n, n indices of its limits, m, m ids
-- Reply {-1} when the registry has another version: nothing was done. Else
--       now (µs), then
--       for each limit: 1 when the worker stands among its waiters
--       for each group: number admitted, µs until it should ask again, exact µs
--         until its next call could start (0: unknown), index of the limit that
--         refused it (0: none), then for each admitted call: µs from now to its
--         start, index of the limit that set the start (0: none)
--
-- Twice is once: an id that the ledger holds is answered with its first start
-- and charged no more; a lease that has ended is not there to end again.

local registry, alive, ledger = KEYS[1], KEYS[2], KEYS[3]
local version, me, channel = ARGV[1], ARGV[2], ARGV[3]
local lease, horizon = tonumber(ARGV[4]), tonumber(ARGV[5])
local lead, patience = tonumber(ARGV[6]), tonumber(ARGV[7])
local HOUR = 3600000          -- ms that keys outlive their use
local GRACE = 250000          -- µs a full rate may lie idle before a waiter has lost its turn
local TURN = 5000000          -- µs for which a worker may keep a slot that others could not use
local EPOCH = 1483228800      -- s, 2017: where redis_rate's times begin

if version ~= '' and (redis.call('HGET', registry, 'version') or '0') ~= version then
  return {-1}
end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local at = 10
local function argument()
  at = at + 1
  return ARGV[at]
end
local function number() return tonumber(argument()) end
local function indices()
  local list = {}
  for i = 1, number() do list[i] = number() end
  return list
end

local limits = {}
for i = 1, tonumber(ARGV[8]) do
  local limit = {state = KEYS[2 + 2 * i], waiters = KEYS[3 + 2 * i], ended = 0}
  limit.rate = argument() == 'r'
  limit.max = number()
  limit.interval = limit.max
  limit.burst, limit.held = number(), number()
  limit.waits, limit.woken, limit.stays = argument() == '1', argument() == '1', argument() == '1'
  limits[i] = limit
end

-- lives says whether a worker's heartbeat holds.
local function lives(worker)
  return tonumber(redis.call('ZSCORE', alive, worker) or 0) > now
end

-- line counts the other workers that wait for a limit, and those of them that
-- stand before this one. The dead leave when they reach the front.
local function line(limit)
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

-- room finds how many leases a concurrency limit has free, and how many of
-- them this worker may take: while others wait, its even share, and when it is
-- its turn at least an even part of what is free.
local wanted = 1
local function room(limit)
  if limit.free then return end
  line(limit)
  local used = redis.call('ZCARD', limit.state)
  if used + wanted > limit.max then
    redis.call('ZREMRANGEBYSCORE', limit.state, '-inf', now)
    used = redis.call('ZCARD', limit.state)
  end
  limit.free = limit.max - used
  limit.mine = limit.free
  if limit.others > 0 then
    local all = limit.others + 1
    local mine = math.max(0, math.floor(limit.max / all) - limit.held)
    if limit.woken or limit.place == 0 then
      local turn = math.ceil(limit.free / all)
      if turn > mine then
        mine = turn
        limit.turn = true
      end
    end
    limit.mine = math.min(limit.free, mine)
  end
end

-- pace reads a rate's theoretical arrival time. A waiter whose turn passed
-- while the rate lay idle has lost it.
local function pace(limit)
  if limit.tat then return end
  line(limit)
  local saved = redis.call('GET', limit.state)
  limit.tat = 0
  if saved then
    limit.tat = math.floor((tonumber(saved) + EPOCH) * 1000000 + 0.5)
  end
  if limit.ahead > 0 and limit.tat + GRACE <= now then
    redis.call('ZREMRANGEBYRANK', limit.waiters, 0, 0)
    limit.others = limit.others - 1
    limit.ahead = 0
    if limit.place then limit.place = limit.place - 1 end
  end
  limit.quota = math.max(1, math.floor(horizon / limit.interval / (limit.others + 1)))
  limit.taken = 0
end

-- free_in is the time until a rate lets the next call start; below 0 when
-- several may start at once.
local function free_in(limit)
  return math.max(limit.tat, now) - (limit.burst - 1) * limit.interval - now
end

for _ = 1, tonumber(ARGV[9]) do
  local id, keep, start = argument(), number(), number()
  local of = indices()
  local held
  if keep == 0 then
    held = redis.call('ZREM', ledger, id) == 1
  else
    redis.call('ZADD', ledger, 'XX', 'LT', now + keep, id)
  end
  for _, i in ipairs(of) do
    local limit = limits[i]
    if limit.rate then
      -- Given back only while nobody was admitted behind it.
      if held and start > now then
        pace(limit)
        if limit.tat == start + limit.burst * limit.interval then
          limit.tat = limit.tat - limit.interval
          limit.changed = true
        end
      end
    elseif keep == 0 then
      limit.ended = limit.ended + redis.call('ZREM', limit.state, id)
    else
      redis.call('ZADD', limit.state, 'XX', 'LT', now + keep, id)
      limit.later = math.min(limit.later or keep, keep)
    end
  end
end

local groups, rounds = {}, 0
wanted = 0
for g = 1, tonumber(ARGV[10]) do
  local group = {of = indices(), ids = {}, admitted = {}, wait = 0, known = 0, bound = 0}
  for i = 1, number() do group.ids[i] = argument() end
  rounds = math.max(rounds, #group.ids)
  wanted = wanted + #group.ids
  groups[g] = group
end
wanted = math.max(1, wanted)

-- refuse ends a group: it waits for the limit of this index.
local function refuse(group, bound, wait, known)
  group.bound, group.wait, group.known = bound, wait, known
  limits[bound].refused = true
end

local function admitted(group, start, bound)
  table.insert(group.admitted, start)
  table.insert(group.admitted, bound)
end

-- keeps says whether a worker may take again a slot that it gave up in this
-- script, although others wait for it: when calls need a second limit that
-- others wait for too, whoever were called would find that one full, and the
-- slot would lie idle. It ends when the first of them has waited long.
local function keeps(limit, group)
  if limit.ended <= 0 or limit.free <= 0 then return false end
  local first = redis.call('ZRANGE', limit.waiters, 0, 0, 'WITHSCORES')
  if now - first[2] > TURN then return false end
  for _, i in ipairs(group.of) do
    local other = limits[i]
    if other ~= limit and not other.rate and other.others > 0 then return true end
  end
  return false
end

-- admit takes one call in or refuses its group. Everything is asked before
-- anything is written.
local function admit(group, id)
  local expiry = tonumber(redis.call('ZSCORE', ledger, id) or 0)
  if expiry > now then
    admitted(group, expiry - lease - now, 0)
    return
  end

  local start, start_bound = 0, 0
  local wait, wait_bound = 0, 0
  for _, i in ipairs(group.of) do
    local limit = limits[i]
    if limit.rate then
      pace(limit)
      local own = free_in(limit)
      local turn = own + limit.ahead * limit.quota * limit.interval
      if turn > horizon and turn > wait then wait, wait_bound = turn, i end
      if own > start then start, start_bound = own, i end
    end
  end
  if wait > 0 then
    refuse(group, wait_bound, wait - lead, wait)
    return
  end

  for _, i in ipairs(group.of) do
    if not limits[i].rate then room(limits[i]) end
  end
  for _, i in ipairs(group.of) do
    local limit = limits[i]
    if not limit.rate then
      if limit.mine <= 0 and not keeps(limit, group) then
        local again = patience
        if limit.free <= 0 then
          local first = redis.call('ZRANGE', limit.state, 0, 0, 'WITHSCORES')
          if first[2] then again = math.min(again, math.max(1, first[2] - now)) end
        end
        refuse(group, i, again, 0)
        return
      end
    end
  end

  expiry = now + start + lease
  for _, i in ipairs(group.of) do
    local limit = limits[i]
    if limit.rate then
      limit.tat = math.max(limit.tat, now + start) + limit.interval
      limit.changed = true
      limit.taken = limit.taken + 1
      if limit.others > 0 and limit.taken >= limit.quota then
        limit.ahead, limit.last = limit.others, true
      end
    else
      redis.call('ZADD', limit.state, expiry, id)
      limit.free, limit.mine, limit.ended = limit.free - 1, limit.mine - 1, limit.ended - 1
      limit.given = true
      if limit.turn then limit.last = true end
    end
  end
  redis.call('ZADD', ledger, expiry, id)
  admitted(group, start, start_bound)
end

for round = 1, rounds do
  for _, group in ipairs(groups) do
    if group.bound == 0 and group.ids[round] then admit(group, group.ids[round]) end
  end
end

-- wake tells the first other waiter that its turn comes in so many µs. One
-- that listens no more leaves the line, and the next is told.
local function wake(limit, wait)
  while true do
    local front = redis.call('ZRANGE', limit.waiters, 0, 1)
    local worker = front[1]
    if worker == me then
      if limit.rate then return end
      worker = front[2]
    end
    if not worker then return end
    if lives(worker) and redis.call('PUBLISH', channel .. worker,
        string.format('%s %d', limit.waiters, wait)) > 0 then
      -- A slot may be taken by whoever comes, so the next one that falls free
      -- calls the next waiter.
      if not limit.rate and wait == 0 then redis.call('ZADD', limit.waiters, now, worker) end
      return
    end
    redis.call('ZREM', limit.waiters, worker)
  end
end

local reply, given = {now}, false
for _, limit in ipairs(limits) do
  if limit.rate and limit.changed then
    local tat = limit.tat - EPOCH * 1000000
    redis.call('SET', limit.state,
      string.format('%d.%06d', math.floor(tat / 1000000), tat % 1000000),
      'EX', math.max(0, math.ceil((limit.tat - now) / 1000000)) + 1)
  elseif limit.given then
    redis.call('PEXPIRE', limit.state, math.ceil((lease + horizon) / 1000) + HOUR)
  end

  line(limit)
  local waits = limit.refused or limit.waits or (limit.stays and limit.place)
  if waits then
    if not limit.place then
      redis.call('ZADD', limit.waiters, now, me)
      redis.call('PEXPIRE', limit.waiters, HOUR)
    elseif limit.last then
      redis.call('ZADD', limit.waiters, now, me)
    end
  elseif limit.place then
    redis.call('ZREM', limit.waiters, me)
  end

  if limit.others > 0 then
    if limit.rate then
      if limit.changed or (limit.place and not waits) then
        pace(limit)
        wake(limit, math.max(0, free_in(limit) - lead))
      end
    else
      room(limit)
      if limit.free > 0 then
        wake(limit, 0)
      elseif limit.later then
        wake(limit, limit.later)
      end
    end
  end
  table.insert(reply, waits and 1 or 0)
end

for _, group in ipairs(groups) do
  given = given or #group.admitted > 0
  table.insert(reply, #group.admitted / 2)
  table.insert(reply, group.wait)
  table.insert(reply, group.known)
  table.insert(reply, group.bound)
  for _, value in ipairs(group.admitted) do table.insert(reply, value) end
end
if given then
  redis.call('PEXPIRE', ledger, math.ceil((lease + horizon) / 1000) + HOUR)
end
return reply
