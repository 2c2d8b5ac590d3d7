-- Moves tasks of one queue whose time has come from a list of delayed ones to
-- pending, the earliest first, as asynq's own forwarder does in every server.
--
-- KEYS[1] asynq:{queue}:scheduled or asynq:{queue}:retry   zset by Unix seconds
-- KEYS[2] asynq:{queue}:pending   list
-- ARGV[1] prefix of the task keys, asynq:{queue}:t:
-- ARGV[2] how many tasks at most
--
-- A task of one of asynq's groups is left alone: no run is in one.
--
-- Returns how many were moved. Running it twice is safe: what was moved is no longer
-- delayed.
local time = redis.call("TIME")
local since = string.format("%d%06d000", tonumber(time[1]), tonumber(time[2]))
local moved = 0
for _, id in ipairs(redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", time[1], "LIMIT", 0, ARGV[2])) do
  local task = ARGV[1] .. id
  if (redis.call("HGET", task, "group") or "") == "" then
    redis.call("LPUSH", KEYS[2], id)
    redis.call("ZREM", KEYS[1], id)
    redis.call("HSET", task, "state", "pending", "pending_since", since)
    moved = moved + 1
  end
end
return moved
