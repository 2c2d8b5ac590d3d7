-- retry: failed runs of one chunk become runs of the next generation.
--
-- KEYS[1] record   KEYS[2] states   KEYS[3] counts   KEYS[4] cursors
-- KEYS[5…] the evaluation's other keys
-- ARGV[1] when the record was made, Unix ms, then for each run: its offset, the generation that failed, the count field of
-- failed in its queue
-- Returns how many runs are retried, -1 when the evaluation is gone or another,
-- -2 when it was cancelled. A done evaluation becomes active with no provider
-- paused and no result, its keys persist again, and cursors restart, so that the runs are pushed;
-- the revision is raised, so that no push begun before moves them.
-- Twice: a run that is no longer failed in that generation is skipped.
local status = redis.call("HGET", KEYS[1], "status")
if not status or redis.call("HGET", KEYS[1], "created") ~= ARGV[1] then
  return -1
end
if status == "cancelled" then
  return -2
end
local moved = 0
for i = 2, #ARGV, 3 do
  local base = tonumber(ARGV[i + 1]) * 4
  if string.byte(redis.call("GETRANGE", KEYS[2], ARGV[i], ARGV[i])) == base + 2 then
    redis.call("SETRANGE", KEYS[2], ARGV[i], string.char(base + 4))
    redis.call("HINCRBY", KEYS[3], ARGV[i + 2], -1)
    moved = moved + 1
  end
end
if moved > 0 then
  if status == "done" then
    redis.call("HSET", KEYS[1], "status", "active")
    redis.call("HDEL", KEYS[1], "paused", "streaks", "result")
  end
  redis.call("HINCRBY", KEYS[1], "revision", 1)
  redis.call("DEL", KEYS[4])
  for i = 1, #KEYS do
    redis.call("PERSIST", KEYS[i])
  end
end
return moved
