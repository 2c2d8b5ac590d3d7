-- Limits are saved, waiters are woken, and the worker is answered.

local reply, given = {now}, false
for _, limit in ipairs(limits) do
  limit:save()
  join(limit)
  local waits = settle_place(limit)
  if limit.others > 0 then
    local turn = limit:next_turn(limit.place and not waits)
    if turn then wake(limit, turn) end
  end
  table.insert(reply, waits and 1 or 0)
  table.insert(reply, limit:in_use())
end
for _, group in ipairs(groups) do
  given = given or #group.admitted > 0
  for _, value in ipairs({#group.admitted / 2, group.wait, group.known, group.own, group.first, group.bound}) do
    table.insert(reply, value)
  end
  for _, value in ipairs(group.admitted) do table.insert(reply, value) end
end
if given then
  redis.call('PEXPIRE', ledger, math.ceil((lease + horizon) / 1000) + HOUR)
end
return reply
