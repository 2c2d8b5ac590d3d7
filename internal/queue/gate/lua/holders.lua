-- Reads who holds a stretch of a queue's active tasks, the latest pulled first.
--
-- KEYS[1] asynq:{queue}:active    list
-- ARGV[1] prefix of the task keys, asynq:{queue}:t:
-- ARGV[2] first position, from 0
-- ARGV[3] last position
--
-- Returns {id, owner, id, owner, ...}; the owner is "" where none is written or
-- the task is gone. It changes nothing.
local reply = {}
for _, id in ipairs(redis.call("LRANGE", KEYS[1], ARGV[2], ARGV[3])) do
  reply[#reply + 1] = id
  reply[#reply + 1] = redis.call("HGET", ARGV[1] .. id, "owner") or ""
end
return reply
