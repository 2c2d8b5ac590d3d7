-- Deletes tasks of one queue that were kept after completion and whose time is
-- over, the earliest first, as asynq's own janitor does in every server.
--
-- KEYS[1] asynq:{queue}:completed   zset by Unix seconds
-- ARGV[1] prefix of the task keys, asynq:{queue}:t:
-- ARGV[2] how many tasks at most
--
-- Returns how many were deleted. Running it twice is safe.
local ids = redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", redis.call("TIME")[1], "LIMIT", 0, ARGV[2])
for _, id in ipairs(ids) do
  redis.call("DEL", ARGV[1] .. id)
  redis.call("ZREM", KEYS[1], id)
end
return #ids
