-- Reads who holds a stretch of a queue's active tasks, the latest pulled first.
--
-- KEYS[1] asynq:{queue}:active    list
-- ARGV[1] prefix of the task keys, asynq:{queue}:t:
-- ARGV[2] first position, from 0
-- ARGV[3] last position
--
-- Returns {id, owner, number of the pull, id, owner, ...}; what is not written, or
-- was written of a task that is gone, is "". It changes nothing.
local reply = {}
for _, id in ipairs(redis.call("LRANGE", KEYS[1], ARGV[2], ARGV[3])) do
  reply[#reply + 1] = id
  local holder = redis.call("HMGET", ARGV[1] .. id, "owner", "pull")
  reply[#reply + 1] = holder[1] or ""
  reply[#reply + 1] = holder[2] or ""
end
return reply
