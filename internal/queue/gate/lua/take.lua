-- Pulls up to ARGV[2] tasks from the head of a queue. It is asynq's dequeue, for
-- several tasks at once, and also writes their owner.
--
-- KEYS[1] asynq:{queue}:pending   list
-- KEYS[2] asynq:{queue}:paused    exists while the queue is paused
-- KEYS[3] asynq:{queue}:active    list
-- KEYS[4] asynq:{queue}:lease     zset
-- KEYS[5] asynq:{queue}:fence:<worker>   last pull that may not run any more
-- ARGV[1] prefix of the task keys, asynq:{queue}:t:
-- ARGV[2] most tasks to take
-- ARGV[3] end of the leases, Unix seconds
-- ARGV[4] worker id
-- ARGV[5] number of the pull, higher than this worker's before
--
-- Returns {tasks left in pending, 1 if paused else 0, id, message, id, message, ...}.
--
-- Running it twice takes two batches: it is sent without retries, and what a
-- lost answer contained is found by reclaim.lua. A pull that Redis only runs
-- after that is an error, FENCED, and takes nothing.
--
-- A task that was deleted while it waited has no message; it is dropped from
-- the queue. At most 100 are dropped in a run, so that no run is long.
if tonumber(redis.call("GET", KEYS[5]) or 0) >= tonumber(ARGV[5]) then
  return redis.error_reply("FENCED pull " .. ARGV[5] .. " came after it was given up")
end
local reply = { 0, redis.call("EXISTS", KEYS[2]) }
if reply[2] == 0 then
  local wanted, dropped = tonumber(ARGV[2]), 0
  while wanted > 0 and dropped < 100 do
    local ids = redis.call("LRANGE", KEYS[1], -wanted, -1)
    if #ids == 0 then
      break
    end
    local taken, leases, gone = {}, {}, {}
    for i = #ids, 1, -1 do
      local id = ids[i]
      local message = redis.call("HGET", ARGV[1] .. id, "msg")
      if message then
        taken[#taken + 1] = id
        leases[#leases + 1] = ARGV[3]
        leases[#leases + 1] = id
        reply[#reply + 1] = id
        reply[#reply + 1] = message
      else
        gone[#gone + 1] = ARGV[1] .. id
      end
    end
    if #taken > 0 then
      redis.call("LPUSH", KEYS[3], unpack(taken))
      redis.call("ZADD", KEYS[4], unpack(leases))
      for _, id in ipairs(taken) do
        redis.call("HSET", ARGV[1] .. id, "state", "active", "owner", ARGV[4], "pull", ARGV[5])
        redis.call("HDEL", ARGV[1] .. id, "pending_since")
      end
    end
    if #gone > 0 then
      redis.call("DEL", unpack(gone))
    end
    -- Last: if memory is short, the commands before it are refused, and nothing
    -- has left the queue.
    redis.call("RPOP", KEYS[1], #ids)
    wanted, dropped = wanted - #taken, dropped + #gone
  end
end
reply[1] = redis.call("LLEN", KEYS[1])
return reply
