-- Calls are admitted.

for _, group in ipairs(groups) do
  group.admitted, group.wait, group.known, group.own, group.first, group.bound = {}, 0, 0, 0, 0, 0
end

-- refuse ends a group: it waits for the limit of this index.
local function refuse(group, bound, wait, exact)
  group.bound, group.wait, group.known = bound, wait, exact
  if bound > 0 then limits[bound].refused = true end
end

-- Callers that have an admitted call, by number.
local served = {}

local function admitted(group, start, bound, outage)
  table.insert(group.admitted, start)
  table.insert(group.admitted, outage and -1 - outage or bound)
end

-- cool refuses a group while leases may be unknown or one of its cooldowns lasts.
local function cool(group)
  if blind > now then
    refuse(group, -1, blind - now, blind - now)
    return true
  end
  local wait, cooldown = cooling(group)
  if wait <= 0 then return false end
  refuse(group, -1 - cooldown, wait, wait)
  group.own, group.first = wait, 1
  return true
end

-- exhausted refuses a group for which a limit has no room at all.
local function exhausted(group, call)
  for _, i in ipairs(group.limits) do
    local wait = limits[i]:affords(call)
    if wait == -1 then
      group.bound, group.wait = i, -1
      return true
    elseif wait then
      refuse(group, i, wait, 0)
      return true
    end
  end
  return false
end

-- start_of is when all limits let a group's call start, from now, and the limit that sets it; or
-- nil, and the group is refused: no call starts more than a horizon ahead, and none at all
-- before the reset of a quota, because it would be counted before it.
local function start_of(group, call)
  local start, start_bound = 0, 0
  local wait, wait_bound, alone = 0, 0, 0
  for _, i in ipairs(group.limits) do
    local limit = limits[i]
    local own, turn, least = limit:starts_in(group, call)
    alone = math.max(alone, least or own)
    if (turn > horizon or limit.resets) and turn > wait then wait, wait_bound = turn, i end
    if own > start then start, start_bound = own, i end
  end
  if wait == 0 then return start, start_bound end
  local early = limits[wait_bound].interval and asked.lead or 0
  refuse(group, wait_bound, wait - early, wait)
  group.own, group.first = alone, limits[wait_bound].ahead == 0 and 1 or 0
  return nil
end

-- full refuses a group when a limit has no lease for its next call, or no room for it.
local function full(group, call)
  for _, i in ipairs(group.limits) do limits[i]:read() end
  for _, i in ipairs(group.limits) do
    local wait = limits[i]:has_room(group, call)
    if wait then
      refuse(group, i, wait, 0)
      return true
    end
  end
  return false
end

local function serve(call)
  if call.of then served[call.of] = true end
end

-- next_of is a group's next call, nil when it has none or waits. Those whose callers have been
-- served are passed over.
local function next_of(group)
  while group.bound == 0 do
    group.asked = (group.asked or 0) + 1
    local call = group.calls[group.asked]
    if not call or not served[call.of or 0] then return call end
    admitted(group, 0, -1)
  end
end

-- admit admits one call or refuses its group. It checks everything before it
-- writes anything.
local function admit(group, call)
  local expiry = tonumber(redis.call('ZSCORE', ledger, call.id) or 0)
  if expiry > now then
    admitted(group, expiry - lease - now, 0)
    serve(call)
    return
  end
  if blind <= now and exhausted(group, call) or cool(group) then return end
  local start, bound = start_of(group, call)
  if not start or full(group, call) then return end
  for _, i in ipairs(group.limits) do limits[i]:take(call, start) end
  redis.call('ZADD', ledger, now + start + lease, call.id)
  admitted(group, start, bound, probe(group, start))
  serve(call)
end

-- admit_all takes in the calls of a group under no limit, which only cooldowns
-- hold back: all of them, or after a cooldown one at a time.
local function admit_all(group)
  local scores = redis.call('ZMSCORE', ledger, unpack(group.ids))
  local new, last = {}, now + lease
  for i, id in ipairs(group.ids) do
    local expiry, outage = tonumber(scores[i] or 0), nil
    if expiry <= now then
      if cool(group) then break end
      outage = probe(group, 0)
      expiry = last
      new[#new + 1] = last
      new[#new + 1] = id
    end
    admitted(group, expiry - lease - now, 0, outage)
  end
  if #new > 0 then redis.call('ZADD', ledger, unpack(new)) end
end

for _, group in ipairs(groups) do
  if group.ids then admit_all(group) end
end
local more = true
while more do
  more = false
  for _, group in ipairs(groups) do
    local call = group.calls and next_of(group)
    if call then
      admit(group, call)
      more = true
    end
  end
end
