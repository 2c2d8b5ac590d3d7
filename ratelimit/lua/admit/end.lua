-- Limits get their keys and methods; leases end.

local kinds = {leases = leases, rate = rate, window = window, quota = quota, budget = budget, weight = weight}
for i, limit in ipairs(limits) do
  limit.index, limit.state, limit.waiters = i, KEYS[limit.state], KEYS[limit.waiters]
  limit.extra = limit.extra and KEYS[limit.extra]
  setmetatable(limit, kinds[limit.kind])
end

local wanted = 0
for _, group in ipairs(groups) do
  group.limits, group.cooldowns = group.limits or {}, group.cooldowns or {}
  wanted = wanted + #(group.ids or group.calls)
end
asked.wanted = math.max(1, wanted)

if asked.plain then redis.call('ZREM', ledger, unpack(asked.plain)) end
for _, ending in ipairs(asked.ends or {}) do
  local id = ending.id
  ending.keep, ending.start = ending.keep or 0, ending.start or 0
  -- Redis has forgotten the lease since it last knew it, and with it the call's start.
  ending.forgotten = ending.epoch and ending.epoch ~= epoch and not ending.unused and not redis.call('ZSCORE', ledger, id)
  if ending.keep == 0 then
    ending.held = redis.call('ZREM', ledger, id) == 1
  else
    redis.call('ZADD', ledger, 'XX', 'LT', now + ending.keep, id)
  end
  for _, i in ipairs(ending.limits or {}) do
    if limits[i]:end_lease(ending) then limits[i]:settle(ending) end
  end
  if ending.held and ending.left then
    for k = 1, #ending.left, 2 do limits[ending.left[k]]:tighten(ending.left[k + 1]) end
  end
end
