-- cancel: every run that has not ended is cancelled, at once.
--
-- KEYS[1] record   KEYS[2] counts
-- ARGV[1] the revision that is meant, then for each queue of each phase: its number of
-- runs, its count fields of succeeded, of failed, of cancelled
-- Returns the evaluation's status afterwards: "cancelled", or "done" when there
-- was nothing left to cancel; "" when it is gone, "stale" when it has another revision:
-- nothing was changed. No byte is written: in a
-- cancelled evaluation, none means cancelled.
-- Twice: the second time finds it cancelled, and the counts stay.
local status = redis.call("HGET", KEYS[1], "status")
if not status then
  return ""
end
if revision(KEYS[1]) ~= ARGV[1] then
  return "stale"
end
if status == "done" or status == "cancelled" then
  return status
end
redis.call("HDEL", KEYS[1], "") -- the first write takes no memory: Redis may be full
redis.call("HSET", KEYS[1], "status", "cancelled")
for i = 2, #ARGV, 4 do
  local ended = 0
  for _, field in ipairs({ARGV[i + 1], ARGV[i + 2]}) do
    ended = ended + tonumber(redis.call("HGET", KEYS[2], field) or 0)
  end
  redis.call("HSET", KEYS[2], ARGV[i + 3], string.format("%d", math.max(tonumber(ARGV[i]) - ended, 0)))
end
return "cancelled"
