-- advance: a queue's cursor, after the runs before it were pushed.
--
-- KEYS[1] record   KEYS[2] cursors
-- ARGV[1] field of the cursor   ARGV[2] the position it must have
-- ARGV[3] its new position   ARGV[4] the revision that the runs were pushed by
-- Returns 1 when moved, 0 when another process has moved the cursor or the
-- revision is another, -1 when the evaluation is gone: a deleted cursor is not
-- made again.
-- Twice: the second time the cursor is no longer at ARGV[2] and stays.
if redis.call("EXISTS", KEYS[1]) == 0 then
  return -1
end
local at = redis.call("HGET", KEYS[2], ARGV[1]) or "0"
if at ~= ARGV[2] or revision(KEYS[1]) ~= ARGV[4] then
  return 0
end
redis.call("HSET", KEYS[2], ARGV[1], ARGV[3])
return 1
