-- Gives a pull up whose answer was lost: moves its tasks back to the head of
-- pending in their order, and forbids it if it has not run yet, as when a slow
-- Redis reads a connection that its client has left. It reads the whole active
-- list: it is for after a failure.
--
-- KEYS[1] asynq:{queue}:pending   list
-- KEYS[2] asynq:{queue}:active    list
-- KEYS[3] asynq:{queue}:lease     zset
-- KEYS[4] asynq:{queue}:fence:<worker>   last pull that may not run any more
-- ARGV[1] prefix of the task keys, asynq:{queue}:t:
-- ARGV[2] worker id
-- ARGV[3] number of the pull
--
-- Returns how many were moved. Running it twice is safe: the first run removes
-- the owner.
local time = redis.call("TIME")
local since = string.format("%d%06d000", tonumber(time[1]), tonumber(time[2]))
redis.call("SET", KEYS[4], ARGV[3], "EX", 60)
local moved = 0
for _, id in ipairs(redis.call("LRANGE", KEYS[2], 0, -1)) do
  local task = ARGV[1] .. id
  local holder = redis.call("HMGET", task, "owner", "pull")
  if holder[1] == ARGV[2] and holder[2] == ARGV[3] then
    redis.call("LREM", KEYS[2], 1, id)
    redis.call("ZREM", KEYS[3], id)
    redis.call("HSET", task, "state", "pending", "pending_since", since)
    redis.call("HDEL", task, "owner", "pull")
    redis.call("RPUSH", KEYS[1], id)
    moved = moved + 1
  end
end
return moved
