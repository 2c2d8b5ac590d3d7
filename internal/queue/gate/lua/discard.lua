-- Removes tasks that no worker holds from one of a queue's lists.
--
-- KEYS[1] asynq:{queue}:<state>   a list if the state is pending, else a zset
-- ARGV[1] prefix of the task keys, asynq:{queue}:t:
-- ARGV[2] the state: pending, scheduled, retry, archived or completed
-- ARGV[3], ARGV[4], ... ids of the tasks
--
-- A task that is in another state by now is left alone: a worker may have pulled it.
-- An id whose task is gone is removed. A uniqueness key goes if it is the task's.
--
-- Returns how many ids were removed from KEYS[1]. Running it twice is safe: the second
-- time finds none of them.
local removed = 0
for i = 3, #ARGV do
  local id = ARGV[i]
  local task = ARGV[1] .. id
  local known = redis.call("HMGET", task, "state", "unique_key")
  local state, unique = known[1], known[2]
  if not state or state == ARGV[2] then
    local found
    if ARGV[2] == "pending" then
      found = redis.call("LREM", KEYS[1], 1, id)
    else
      found = redis.call("ZREM", KEYS[1], id)
    end
    if found > 0 then
      removed = removed + 1
      if unique and unique ~= "" and redis.call("GET", unique) == id then
        redis.call("DEL", unique)
      end
      redis.call("DEL", task)
    end
  end
end
return removed
