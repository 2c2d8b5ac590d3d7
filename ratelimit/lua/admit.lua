-- Ends leases of one worker, settles what their calls used, and admits waiting
-- calls of it, in one step.
--
-- A call is admitted under all its limits or under none. Calls come in groups
-- that share a set of limits; those without any go first, the others take turns,
-- a group keeps its order, and its first refusal ends it.
--
-- KEYS  1 registry  2 alive  3 ledger of the worker  4 cooldowns
--       then for each limit: its state and its waiters
--       then, in the order of the limits, the money of each budget and the cut of
--       each limit that adapts
-- ARGV  1 version of the registry that the limits were read at; "" when only
--         leases end
--       2 worker  3 prefix of the wake channels
--       4 lease  5 horizon  6 lead  7 patience, all in µs
--       8 number of limits  9 of leases that end  10 of groups  11 of leases under
--         no limit that end now  12 the earliest and 13 the latest time that the
--         worker expects (µs)
--       for each limit: its kind and five numbers,
--           c  leases: greatest number, 1 when it adapts, 0, 0, 0
--           r  rate: µs a unit, burst (units), 0, 0, 0
--           w  window: units, span that is counted, slot (both µs), 0, 0
--           d  quota: units, the last two resets and the next two (µs), by the
--              worker's clock
--           b  budget: greatest sum of what is spent and reserved, 0, 0, 0, 0
--         what a call costs (0: one unit, 1: its input, 2: its output, 3: both,
--         4: its money; below 0 when nothing of it is given back),
--         leases that the worker holds besides those that end here, which other calls of
--         the worker wait for it (0: none, 1: some, 2: some that have waited
--         long), 1 when it was woken, 1 when the worker keeps its place in the
--         wait queue although no call waits
--       for each lease under no limit that ends now: id
--       for each other lease that ends: id, µs to keep it, 1 when it was never used,
--         its start (µs), index of the limit that was too high for it, as its
--         provider has refused it (0: none, -1: it was answered), input, output and
--         money that it was admitted with, the usage of each beyond that (below
--         0: less), the epoch in which it was last known ("": not to be counted where
--         Redis has forgotten it), n, n indices of its limits, 2m, m times the index of
--         a limit and what its provider says is left of it
--       for each group: 1 when its first call has waited long, n, n indices of
--         its limits, s, s names of its cooldowns, m, and for each of m calls:
--         id, and where it has limits input, output, money, µs that it counts
--         without renewals (0: a lease)
-- Reply {-1} when the registry has another version, {-2} when it is not a time that the
--       worker expects: nothing was done. Else
--       now (µs), then
--       for each limit: 1 when the worker is among its waiters, how many leases
--         of it are held (0 for a limit of another kind)
--       for each group: number admitted, µs until it should ask again (-1: never,
--         unless the budget that refused it is raised), exact µs until its next
--         call could start (0: unknown), µs that it would have to wait if
--         no call were ahead of it (0: unknown), 1 when none is, what refused it
--         (index of a limit, 0: nothing, -1: leases may be unknown, -1-k: its k-th
--         cooldown), then for each admitted call: µs from now to its start, index of
--         the limit that set the start (0: none)
--
-- Idempotent: an id that the ledger holds is answered with its first start
-- and charged no more; a lease that has ended is not there to end again, and one that a
-- budget had forgotten is marked when it is counted.

local registry, alive, ledger, cooldowns = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local version, me, channel = ARGV[1], ARGV[2], ARGV[3]
local lease, horizon = tonumber(ARGV[4]), tonumber(ARGV[5])
local lead, patience = tonumber(ARGV[6]), tonumber(ARGV[7])
local HOUR = 3600000          -- ms that keys outlive their use
local GRACE = 250000          -- µs a full rate may lie idle before a waiter has lost its turn
local SPREAD = 500000         -- µs from the start of a call under a quota until it has arrived (quotaSpread)
local TURN = 5000000          -- µs for which a worker may keep a slot that others could not use,
                              -- and after which a waiter for a window goes first
local PROBE = 1000000         -- µs that the one call after a cooldown is alone
local EPOCH = 1483228800      -- s, 2017: where redis_rate's times begin
local DAY = 24 * HOUR         -- the same for a quota: in the embedded Redis, a key does not live
                              -- longer when the clock is set back
local MONTH = 720 * HOUR      -- that a budget's money outlives its last change
local NO_TIME = 1000000000000 -- scores below are no times: such a lease was counted at its end

-- The registry also says since when Redis remembers (µs, 0: always), and until
-- when leases may be unknown to it.
local known = redis.call('HMGET', registry, 'version', 'epoch', 'since', 'blind')
if version ~= '' and (known[2] or '') .. ':' .. (known[1] or '0') ~= version then
  return {-1}
end
local epoch, since, blind = known[2] or '', tonumber(known[3] or 0), tonumber(known[4] or 0)

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

if now < tonumber(ARGV[12]) or now > tonumber(ARGV[13]) then return {-2} end

local at = 13
local function argument()
  at = at + 1
  return ARGV[at]
end
local function number() return tonumber(argument()) end
local function list(read)
  local all = {}
  for i = 1, number() do all[i] = read() end
  return all
end

local limits, extra = {}, 4 + 2 * tonumber(ARGV[8])
for i = 1, tonumber(ARGV[8]) do
  local limit = {state = KEYS[3 + 2 * i], waiters = KEYS[4 + 2 * i], ended = 0}
  limit.kind = argument()
  limit.max = number()
  limit.interval = limit.max
  limit.burst, limit.slot, limit.next_reset, limit.later_reset = number(), number(), number(), number()
  limit.column, limit.held = number(), number()
  limit.charged, limit.column = limit.column < 0, math.abs(limit.column)
  local others = number()
  limit.waits, limit.aged = others > 0, others == 2
  limit.woken, limit.stays = argument() == '1', argument() == '1'
  limit.leased = limit.kind == 'c' or limit.kind == 'b'
  limit.adapts = limit.kind == 'c' and limit.burst == 1
  if limit.kind == 'b' or limit.adapts then
    extra = extra + 1
    limit.extra = KEYS[extra]
  end
  limits[i] = limit
end

-- cost is what a call or a lease costs under a limit, given its input, output and
-- money.
local function cost(limit, input, output, money)
  if limit.column == 0 then return 1 end
  if limit.column == 1 then return input end
  if limit.column == 2 then return output end
  if limit.column == 4 then return money end
  return input + output
end

-- lives says whether a worker's heartbeat holds.
local function lives(worker)
  return tonumber(redis.call('ZSCORE', alive, worker) or 0) > now
end

-- line counts the other workers in a limit's wait queue, and those of them that are
-- ahead of this one. Dead workers leave when they reach the front.
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

-- front_waits is how long the first worker of a wait queue has been there, in µs.
local function front_waits(limit)
  local first = redis.call('ZRANGE', limit.waiters, 0, 0, 'WITHSCORES')
  return first[2] and now - first[2] or 0
end

-- adapt reads what a limit is cut to, which is then the greatest number in place of
-- its own, the cap.
local function adapt(limit)
  if not limit.adapts or limit.cap then return end
  local saved = redis.call('HMGET', limit.extra, 'max', 'cut', 'answered')
  limit.cap = limit.max
  limit.max = math.min(limit.cap, tonumber(saved[1] or limit.cap))
  limit.cut, limit.answered = tonumber(saved[2] or 0), tonumber(saved[3] or 0)
end

-- in_use is how many leases a limit had when the script began.
local function in_use(limit)
  if not limit.began_with then
    limit.began_with = redis.call('ZCOUNT', limit.state, '(' .. string.format('%d', now), '+inf') + limit.ended
  end
  return limit.began_with
end

-- cut lowers a limit under which the provider refused a call, once for all calls
-- that had started when it was cut. One that was refused alone was not one too
-- many. A limit of none is closed, and stays as it is.
local function cut(limit, start)
  adapt(limit)
  local used = in_use(limit)
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
  if start < limit.cut or in_use(limit) < limit.max then return end
  limit.answered = limit.answered + 1
  if limit.answered >= limit.max then
    limit.max = math.min(limit.cap, limit.max + math.max(1, math.floor(limit.cap / 50)))
    limit.answered = 0
  end
end

-- room finds how many leases a concurrency limit has free, and how many of
-- them this worker may take: while others wait, its even share, and when it is
-- its turn at least an even part of the free ones.
local wanted = 1
local function room(limit)
  if limit.free then return end
  line(limit)
  adapt(limit)
  local used = redis.call('ZCARD', limit.state)
  -- Leases that have ended are counted out where they could make a limit look
  -- full.
  if used + wanted >= limit.max then
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

-- pace reads a rate's theoretical arrival time. When Redis's memory began the rate
-- was used up by starts granted as far ahead as possible; a time saved earlier may
-- lack the last of them. A waiter that leaves the rate idle past its turn loses it.
local function pace(limit)
  if limit.tat then return end
  line(limit)
  local saved = redis.call('GET', limit.state)
  limit.tat = saved and math.floor((tonumber(saved) + EPOCH) * 1000000 + 0.5) or 0
  if since > 0 then
    limit.tat = math.max(limit.tat, since + horizon + math.ceil(limit.burst * limit.interval))
  end
  if limit.ahead > 0 and limit.tat + GRACE <= now then
    redis.call('ZREMRANGEBYRANK', limit.waiters, 0, 0)
    limit.others = limit.others - 1
    limit.ahead = 0
    if limit.place then limit.place = limit.place - 1 end
  end
  limit.taken = 0
end

-- free_in is the time until a rate lets a call of so many units start; below 0
-- when more could start at once. One that is larger than the burst waits for a
-- full bucket and leaves a debt.
local function free_in(limit, units)
  return math.max(limit.tat, now) +
    math.ceil((math.min(units, limit.burst) - limit.burst) * limit.interval) - now
end

-- window reads how many units were started in the span that counts. Units are
-- counted in slots; a slot leaves when all of it is older than the span. A
-- window that Redis does not remember was full when its memory began.
local function window(limit)
  if limit.total then return end
  line(limit)
  limit.adds = {}
  local oldest = math.floor((now - limit.burst) / limit.slot)
  local saved = redis.call('HMGET', limit.state, 'total', 'oldest')
  limit.total, limit.oldest = tonumber(saved[1] or 0), tonumber(saved[2] or oldest)
  if limit.oldest >= oldest then return end
  limit.changed = true
  if oldest - limit.oldest > (limit.burst + horizon) / limit.slot + 2 then
    redis.call('DEL', limit.state)
    limit.total = 0
  else
    local gone = {}
    for slot = limit.oldest, oldest - 1 do table.insert(gone, string.format('%d', slot)) end
    for _, units in ipairs(redis.call('HMGET', limit.state, unpack(gone))) do
      limit.total = limit.total - tonumber(units or 0)
    end
    redis.call('HDEL', limit.state, unpack(gone))
  end
  limit.oldest = oldest
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

-- window_in is the time until so many units fit into a window. More than it
-- holds fit when it is empty, and leave a debt.
local function window_in(limit, units)
  local least = 0
  if since > 0 then least = math.max(0, since + horizon + limit.burst + limit.slot - now) end
  local excess = limit.total + math.min(units, limit.max) - limit.max
  if excess <= 0 then return least end
  local last = math.floor((now + horizon) / limit.slot)
  local slots = {}
  for slot = limit.oldest, last do table.insert(slots, string.format('%d', slot)) end
  for i, saved in ipairs(redis.call('HMGET', limit.state, unpack(slots))) do
    local slot = limit.oldest + i - 1
    excess = excess - tonumber(saved or 0) - (limit.adds[slot] or 0)
    if excess <= 0 then return math.max(least, (slot + 1) * limit.slot + limit.burst - now) end
  end
  return math.max(least, limit.slot + limit.burst)
end

-- quota reads the usage of a quota until its next reset. A quota that Redis does
-- not remember stays closed until it is seeded, or until the reset.
local function quota(limit)
  if limit.reset then return end
  line(limit)
  limit.began, limit.reset = limit.burst, limit.slot
  if limit.reset <= now then limit.began, limit.reset = limit.slot, limit.next_reset end
  if limit.reset <= now then limit.began, limit.reset = limit.next_reset, limit.later_reset end
  local saved = redis.call('HMGET', limit.state, 'used', 'reset')
  limit.used = 0
  if saved[2] and tonumber(saved[2]) > now then
    limit.used = tonumber(saved[1] or 0)
  else
    limit.anew = true
    limit.closed = since > limit.began
  end
end

-- save_quota writes what a quota has come to. Seeds of an earlier day are removed with it.
local function save_quota(limit)
  if limit.anew then
    redis.call('DEL', limit.state)
    redis.call('HSET', limit.state, 'epoch', epoch, 'whole', '1')
  else
    enter_epoch(limit.state, epoch, now)
  end
  redis.call('HSET', limit.state, 'used', string.format('%d', limit.used),
    'reset', string.format('%d', limit.reset))
  redis.call('PEXPIRE', limit.state, math.ceil((limit.reset - now) / 1000) + DAY)
end

-- ran counts a call that was in flight when Redis lost its memory.
local function ran(limit, id)
  if limit.changed then save_quota(limit) end
  ran_before(limit.state, epoch, id, now)
  limit.reset, limit.closed, limit.anew, limit.changed = nil, nil, nil, nil -- to be read again
end

-- What starts at the end of a day may arrive on the next, for which it was not counted.
local function quota_in(limit, units)
  if limit.closed or limit.reset - now <= SPREAD + horizon or (limit.used > 0 and limit.used + units > limit.max) then
    return limit.reset - now
  end
  return 0
end

-- budget reads the amount spent and reserved. A budget is closed until it is told
-- what was spent before Redis began to count.
local function budget(limit)
  if limit.read then return end
  limit.read = true
  line(limit)
  local saved = redis.call('HMGET', limit.extra, 'used', 'told')
  limit.known, limit.used = saved[1], tonumber(saved[1] or 0)
  limit.closed = not saved[2]
end

-- recounted counts the cost and the reservation of a call whose lease a budget has
-- forgotten since the epoch in which the lease was granted.
local function recounted(limit, id, granted, money)
  local score = redis.call('ZSCORE', limit.state, id)
  if score then return tonumber(score) < NO_TIME end
  if granted == '' or granted == epoch then return false end
  budget(limit)
  limit.used, limit.known, limit.changed = limit.used + money, true, true
  redis.call('ZADD', limit.state, 0, id)
  limit.latest = math.max(limit.latest or 0, now + lease)
  return true
end

-- tighten makes a limit give no more than its provider says is left of it.
local function tighten(limit, left)
  if limit.kind == 'r' then
    pace(limit)
    local empty = now + math.ceil(limit.burst * limit.interval)
    if limit.tat < empty then
      limit.tat = empty
      limit.changed = true
    end
  elseif limit.kind == 'w' then
    window(limit)
    local excess = limit.max - limit.total - left
    if excess > 0 then count(limit, now, excess) end
  end
end

local plain = tonumber(ARGV[11])
if plain > 0 then
  redis.call('ZREM', ledger, unpack(ARGV, at + 1, at + plain))
  at = at + plain
end
for _ = 1, tonumber(ARGV[9]) do
  local id, keep, unused, start, went = argument(), number(), argument() == '1', number(), number()
  local input, output, money = number(), number(), number()
  local more_input, more_output, more_money = number(), number(), number()
  local granted = argument()
  local spent = keep > 0 and money or unused and 0 or math.max(0, money + more_money)
  local held
  -- Redis has forgotten the lease since it last knew it, and with it the call's start.
  local forgotten = granted ~= '' and granted ~= epoch and not unused and not redis.call('ZSCORE', ledger, id)
  if keep == 0 then
    held = redis.call('ZREM', ledger, id) == 1
  else
    redis.call('ZADD', ledger, 'XX', 'LT', now + keep, id)
  end
  for _, i in ipairs(list(number)) do
    local limit = limits[i]
    local settles = held
    if forgotten and limit.kind == 'd' then
      ran(limit, id)
    end
    if limit.leased then
      settles = false
      if held and limit.adapts then
        if went == i then cut(limit, start) end
        if went < 0 then grow(limit, start) end
      end
      if limit.kind == 'b' and recounted(limit, id, granted, spent) then
        settles = false
      elseif keep == 0 then
        local was = redis.call('ZREM', limit.state, id)
        limit.ended = limit.ended + was
        settles = limit.kind == 'b' and was == 1
      else
        redis.call('ZADD', limit.state, 'XX', 'LT', now + keep, id)
        limit.later = math.min(limit.later or keep, keep)
      end
    end
    if settles then
      local units = cost(limit, input, output, money)
      local more = 0
      if limit.column > 0 then more = cost(limit, more_input, more_output, more_money) end
      -- A bucket gives nothing back: unused tokens may have been lost in a
      -- full bucket since, and only its history would tell.
      if limit.charged or limit.kind == 'r' then more = math.max(0, more) end
      -- A start that never came is given back; in a rate only if no call was
      -- admitted after it.
      if limit.kind == 'r' then
        if unused and start > now then
          pace(limit)
          local beyond = math.max(0, units - limit.burst)
          if math.abs(limit.tat - start - math.ceil((limit.burst + beyond) * limit.interval)) < 2 then
            limit.tat = limit.tat - math.ceil(units * limit.interval)
            limit.changed = true
          end
        elseif more ~= 0 then
          pace(limit)
          limit.tat = limit.tat + math.ceil(more * limit.interval)
          limit.changed = true
        end
      else
        if unused then more = -units end
        if more ~= 0 and limit.kind == 'w' then
          window(limit)
          count(limit, start, more)
          limit.freed = limit.freed or more < 0
        elseif more ~= 0 and limit.kind == 'b' then
          budget(limit)
          if limit.known then
            limit.used = math.max(0, limit.used + more)
            limit.changed = true
          end
        elseif more ~= 0 then
          quota(limit)
          if not limit.closed and start >= limit.began then
            limit.used = math.max(0, limit.used + more)
            limit.changed = true
          end
        end
      end
    end
  end
  local said = list(number)
  for k = 1, #said, 2 do
    if held then tighten(limits[said[k]], said[k + 1]) end
  end
end

local groups, rounds = {}, 0
wanted = 0
for g = 1, tonumber(ARGV[10]) do
  local group = {aged = argument() == '1', admitted = {}, wait = 0, known = 0, own = 0, first = 0, bound = 0}
  group.of, group.cooldowns = list(number), list(argument)
  if #group.of == 0 then
    group.ids, group.calls = list(argument), {}
    wanted = wanted + #group.ids
  else
    group.calls = list(function()
      return {id = argument(), input = number(), output = number(), money = number(), counts = number()}
    end)
  end
  rounds = math.max(rounds, #group.calls)
  wanted = wanted + #group.calls
  groups[g] = group
end
wanted = math.max(1, wanted)

-- refuse ends a group: it waits for the limit of this index.
local function refuse(group, bound, wait, known)
  group.bound, group.wait, group.known = bound, wait, known
  if bound > 0 then limits[bound].refused = true end
end

local function admitted(group, start, bound)
  table.insert(group.admitted, start)
  table.insert(group.admitted, bound)
end

-- keeps reports whether a worker may take back a slot that it gave up in this
-- script although others wait for it. When calls need a second limit that
-- others wait for too, the worker woken would find that one full, and the
-- slot would lie idle. It ends when the first of them has waited long.
local function keeps(limit, group)
  if limit.ended <= 0 or limit.free <= 0 then return false end
  if front_waits(limit) > TURN then return false end
  for _, i in ipairs(group.of) do
    local other = limits[i]
    if other ~= limit and other.kind == 'c' and other.others > 0 then return true end
  end
  return false
end

-- cooling is the wait for the end of a cooldown and its place in the group; 0
-- when there is none. The one call that starts after it is alone for a while.
local function cooling(group)
  if #group.cooldowns == 0 then return 0, 0 end
  if not group.cooled then group.cooled = redis.call('HMGET', cooldowns, unpack(group.cooldowns)) end
  local wait, bound = 0, 0
  for k = 1, #group.cooldowns do
    local ends = group.cooled[k] and tonumber(string.match(group.cooled[k], '^%d+'))
    if ends and ends - now > wait then wait, bound = ends - now, k end
  end
  return wait, bound
end

-- probe ends the cooldowns that are over: a first call starts, and is alone;
-- when that has passed too, the cooldown is gone.
local function probe(group, start)
  for k, name in ipairs(group.cooldowns) do
    local saved = group.cooled and group.cooled[k]
    if saved then
      if string.find(saved, 'probe', 1, true) then
        redis.call('HDEL', cooldowns, name)
      else
        redis.call('HSET', cooldowns, name,
          string.format('%d probe %s', now + start + PROBE, string.match(saved, '%d+$')))
      end
      for _, other in ipairs(groups) do other.cooled = nil end
    end
  end
end

-- expected is the time until a limit lets the group's next call start, and in
-- how many µs it is worth asking: waiters ahead of it come first. If the
-- former includes those waiters, the time without them is the third result.
local function expected(limit, group, units)
  if limit.kind == 'r' then
    pace(limit)
    local step = math.max(1, units * limit.interval)
    limit.share = math.max(1, math.floor(horizon / step / (limit.others + 1)))
    local own = free_in(limit, units)
    return own, own + limit.ahead * limit.share * step
  end
  local own
  if limit.kind == 'w' then
    window(limit)
    own = window_in(limit, units)
    -- A large call is not passed for ever by small ones.
    local passed = limit.aged and not group.aged
    if own <= horizon and (passed or (limit.ahead > 0 and front_waits(limit) > TURN)) then
      return patience, patience, own
    end
  else
    quota(limit)
    own = quota_in(limit, units)
  end
  return own, own
end

-- retry is when to ask again for a lease: when the first one held may end, or
-- when the worker woken instead has not come.
local function retry(limit)
  local first = redis.call('ZRANGE', limit.state, 0, 0, 'WITHSCORES')
  if not first[2] then return patience end
  return math.min(patience, math.max(1, first[2] - now))
end

-- affords says whether a budget has room for a call, or refuses its group: until
-- calls in flight have left it some, or for good when there are none.
local function affords(group, i, call)
  local limit = limits[i]
  budget(limit)
  if limit.closed then
    refuse(group, i, lease, 0)
    return false
  end
  if call.money == 0 or limit.used + call.money <= limit.max then return true end
  redis.call('ZREMRANGEBYSCORE', limit.state, '-inf', now)
  if redis.call('ZCARD', limit.state) > 0 then
    refuse(group, i, retry(limit), 0)
  else
    group.bound, group.wait = i, -1
  end
  return false
end

-- admit admits one call or refuses its group. It checks everything before it
-- writes anything.
local function admit(group, call)
  local expiry = tonumber(redis.call('ZSCORE', ledger, call.id) or 0)
  if expiry > now then
    admitted(group, expiry - lease - now, 0)
    return
  end
  if blind > now then
    refuse(group, -1, blind - now, blind - now)
    return
  end
  for _, i in ipairs(group.of) do
    if limits[i].kind == 'b' and not affords(group, i, call) then return end
  end
  local cool, cooldown = cooling(group)
  if cool > 0 then
    refuse(group, -1 - cooldown, cool, cool)
    group.own, group.first = cool, 1
    return
  end

  local start, start_bound = 0, 0
  local wait, wait_bound, alone = 0, 0, 0
  for _, i in ipairs(group.of) do
    local limit = limits[i]
    if not limit.leased then
      local own, turn, least = expected(limit, group, cost(limit, call.input, call.output))
      alone = math.max(alone, least or own)
      -- What a quota lets start after its reset would be counted before it.
      if (turn > horizon or limit.kind == 'd') and turn > wait then wait, wait_bound = turn, i end
      if own > start then start, start_bound = own, i end
    end
  end
  if wait > 0 then
    local early = limits[wait_bound].kind == 'r' and lead or 0
    refuse(group, wait_bound, wait - early, wait)
    group.own, group.first = alone, limits[wait_bound].ahead == 0 and 1 or 0
    return
  end

  for _, i in ipairs(group.of) do
    if limits[i].kind == 'c' then room(limits[i]) end
  end
  for _, i in ipairs(group.of) do
    local limit = limits[i]
    if limit.kind == 'c' then
      if limit.mine <= 0 and not keeps(limit, group) then
        refuse(group, i, limit.free <= 0 and retry(limit) or patience, 0)
        return
      end
    end
  end

  expiry = now + start + lease
  for _, i in ipairs(group.of) do
    local limit = limits[i]
    local units = cost(limit, call.input, call.output, call.money)
    if limit.leased then
      local ends = call.counts > 0 and now + start + call.counts or expiry
      redis.call('ZADD', limit.state, ends, call.id)
      limit.latest = math.max(limit.latest or 0, ends, now + horizon + lease)
    end
    if limit.kind == 'c' then
      limit.free, limit.mine, limit.ended = limit.free - 1, limit.mine - 1, limit.ended - 1
      if limit.turn then limit.last = true end
    elseif limit.kind == 'r' then
      limit.tat = math.max(limit.tat, now + start) + math.ceil(units * limit.interval)
      limit.changed = true
      limit.taken = limit.taken + 1
      if limit.others > 0 and limit.taken >= limit.share then
        limit.ahead, limit.last = limit.others, true
      end
    elseif limit.kind == 'w' then
      count(limit, now + start, units)
      limit.last = limit.others > 0
    else
      limit.used = limit.used + units
      limit.changed = true
    end
  end
  redis.call('ZADD', ledger, expiry, call.id)
  probe(group, start)
  admitted(group, start, start_bound)
end

-- admit_all takes in the calls of a group under no limit, which only cooldowns
-- hold back: all of them, or after a cooldown one at a time.
local function admit_all(group)
  local scores = redis.call('ZMSCORE', ledger, unpack(group.ids))
  local new, last = {}, now + lease
  for i, id in ipairs(group.ids) do
    local expiry = tonumber(scores[i] or 0)
    if expiry <= now then
      local wait, cooldown = blind - now, 0
      if wait <= 0 then wait, cooldown = cooling(group) end
      if wait > 0 then
        refuse(group, -1 - cooldown, wait, wait)
        if cooldown > 0 then group.own, group.first = wait, 1 end
        break
      end
      probe(group, 0)
      expiry = last
      new[#new + 1] = last
      new[#new + 1] = id
    end
    admitted(group, expiry - lease - now, 0)
  end
  if #new > 0 then redis.call('ZADD', ledger, unpack(new)) end
end

for _, group in ipairs(groups) do
  if group.ids then admit_all(group) end
end
for round = 1, rounds do
  for _, group in ipairs(groups) do
    if group.bound == 0 and group.calls[round] then admit(group, group.calls[round]) end
  end
end

-- wake tells the first other waiter that its turn comes in so many µs. A waiter
-- that no longer listens leaves the wait queue, and the next is told.
local function wake(limit, wait)
  while true do
    local front = redis.call('ZRANGE', limit.waiters, 0, 1)
    local worker = front[1]
    if worker == me then
      if limit.kind == 'r' then return end
      worker = front[2]
    end
    if not worker then return end
    if lives(worker) and redis.call('PUBLISH', channel .. worker,
        string.format('%s %d', limit.waiters, wait)) > 0 then
      -- Any worker may take a slot, so the next one that becomes free wakes the next waiter.
      if limit.kind == 'c' and wait == 0 then redis.call('ZADD', limit.waiters, now, worker) end
      return
    end
    redis.call('ZREM', limit.waiters, worker)
  end
end

-- save writes what a limit has come to.
local function save(limit)
  if limit.latest then
    local life = math.ceil((limit.latest - now) / 1000) + HOUR
    if redis.call('PTTL', limit.state) < life then redis.call('PEXPIRE', limit.state, life) end
  end
  if not limit.changed then
    return
  elseif limit.adapts then
    if limit.max < limit.cap then
      redis.call('HSET', limit.extra, 'max', string.format('%d', limit.max),
        'cut', string.format('%d', limit.cut), 'answered', string.format('%d', limit.answered))
      redis.call('PEXPIRE', limit.extra, HOUR)
    else
      redis.call('DEL', limit.extra)
    end
  elseif limit.kind == 'b' then
    redis.call('HSET', limit.extra, 'used', string.format('%d', limit.used))
    redis.call('PEXPIRE', limit.extra, MONTH)
  elseif limit.kind == 'r' then
    -- It outlives its use, because a call that ends later may leave a debt.
    local tat = limit.tat - EPOCH * 1000000
    redis.call('SET', limit.state,
      string.format('%d.%06d', math.floor(tat / 1000000), tat % 1000000),
      'EX', math.max(0, math.ceil((limit.tat - now) / 1000000)) + HOUR / 1000)
  elseif limit.kind == 'w' then
    for slot, units in pairs(limit.adds) do
      redis.call('HINCRBY', limit.state, string.format('%d', slot), units)
    end
    redis.call('HSET', limit.state, 'total', string.format('%d', limit.total),
      'oldest', string.format('%d', limit.oldest))
    redis.call('PEXPIRE', limit.state, math.ceil((limit.burst + 2 * limit.slot) / 1000) + HOUR)
  else
    save_quota(limit)
  end
end

local reply, given = {now}, false
for _, limit in ipairs(limits) do
  save(limit)
  line(limit)
  -- A place is kept only where the next call would have to wait.
  local keeps_place = limit.stays and limit.place and (limit.others > 0 or limit.free == 0)
  local waits = limit.refused or limit.waits or keeps_place
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
    if limit.kind == 'r' then
      if limit.changed or (limit.place and not waits) then
        pace(limit)
        wake(limit, math.max(0, free_in(limit, 1) - lead))
      end
    elseif limit.kind == 'w' then
      if limit.freed or (limit.place and not waits) then wake(limit, 0) end
    elseif limit.kind == 'b' then
      if limit.ended > 0 or (limit.place and not waits) then wake(limit, 0) end
    elseif limit.kind == 'c' then
      room(limit)
      if limit.free > 0 then
        wake(limit, 0)
      elseif limit.later then
        wake(limit, limit.later)
      end
    end
  end
  table.insert(reply, waits and 1 or 0)
  table.insert(reply, limit.kind == 'c' and
    redis.call('ZCOUNT', limit.state, string.format('(%d', now), '+inf') or 0)
end

for _, group in ipairs(groups) do
  given = given or #group.admitted > 0
  table.insert(reply, #group.admitted / 2)
  table.insert(reply, group.wait)
  table.insert(reply, group.known)
  table.insert(reply, group.own)
  table.insert(reply, group.first)
  table.insert(reply, group.bound)
  for _, value in ipairs(group.admitted) do table.insert(reply, value) end
end
if given then
  redis.call('PEXPIRE', ledger, math.ceil((lease + horizon) / 1000) + HOUR)
end
return reply
