-- Removes what asynq keeps of a queue that has no tasks and is not paused.
--
-- KEYS[1..8]  asynq:{queue}:pending, active, scheduled, retry, archived, completed,
--             groups, paused
-- KEYS[9...]  its other keys: leases and counts
--
-- Returns 1, or 0 if any of the first eight exists: then nothing is removed.
-- Running it twice is safe: the second time there is nothing to remove.
for i = 1, 8 do
  if redis.call("EXISTS", KEYS[i]) == 1 then
    return 0
  end
end
for i = 9, #KEYS do
  redis.call("DEL", KEYS[i])
end
return 1
