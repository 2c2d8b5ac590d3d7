-- Moves active tasks back to the head of pending, each only if the pull that the
-- caller saw still holds it.
--
-- KEYS[1] asynq:{queue}:pending   list
-- KEYS[2] asynq:{queue}:active    list
-- KEYS[3] asynq:{queue}:lease     zset
-- ARGV[1] prefix of the task keys, asynq:{queue}:t:
-- ARGV[2] seconds for which the lease of a task without owner must have been over
-- ARGV[3], ARGV[4], ARGV[5], ... id, owner and number of the pull of each task, as
-- holders.lua returns them; the last is pulled first
--
-- Owner "" is a task that something other than this package pulled: it is moved
-- once its lease is long over, or at once when it has none, which asynq never
-- recovers. An id without a task is removed from the lists.
--
-- Returns the ids that were moved. Running it twice is safe: the first run
-- removes the owner and the id from active.
local time = redis.call("TIME")
local over = tonumber(time[1]) - tonumber(ARGV[2])
local since = string.format("%d%06d000", tonumber(time[1]), tonumber(time[2]))
local moved = {}
for i = 3, #ARGV, 3 do
  local id, owner, pull = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local task = ARGV[1] .. id
  local holder = redis.call("HMGET", task, "owner", "pull")
  if redis.call("EXISTS", task) == 0 then
    redis.call("LREM", KEYS[2], 0, id)
    redis.call("ZREM", KEYS[3], id)
  elseif (holder[1] or "") == owner and (holder[2] or "") == pull then
    local lease = owner == "" and redis.call("ZSCORE", KEYS[3], id)
    if not (lease and tonumber(lease) > over) and redis.call("LREM", KEYS[2], 0, id) > 0 then
      redis.call("ZREM", KEYS[3], id)
      redis.call("HSET", task, "state", "pending", "pending_since", since)
      redis.call("HDEL", task, "owner", "pull")
      redis.call("RPUSH", KEYS[1], id)
      moved[#moved + 1] = id
    end
  end
end
return moved
