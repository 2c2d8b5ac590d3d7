-- Moves tasks of one queue whose time has come from the lists of delayed ones to
-- pending, the earliest first, as asynq's own forwarder does in every server.
--
-- KEYS[1] asynq:{queue}:pending     list
-- KEYS[2] asynq:{queue}:forwarded   when this script was last run, Unix seconds
-- KEYS[3] asynq:{queue}:scheduled, KEYS[4] asynq:{queue}:retry   zsets by Unix seconds
-- KEYS[5] asynq:{queue}:active      list
-- ARGV[1] prefix of the task keys, asynq:{queue}:t:
-- ARGV[2] how many tasks of each list at most
--
-- A task of one of asynq's groups is left alone: no run is in one. If Redis's clock was
-- set back since the last time, all delayed tasks move with it, so that none waits for
-- longer than it was delayed for. A queue without tasks keeps no such time.
--
-- Returns 1 if more tasks may be due, else 0, and how many were moved. Running it twice
-- is safe: what was moved is no longer delayed, and the clock was set back once.
local time = redis.call("TIME")
local now = tonumber(time[1])
local since = string.format("%d%06d000", now, tonumber(time[2]))

if redis.call("EXISTS", KEYS[1], KEYS[3], KEYS[4], KEYS[5]) == 0 then
  redis.call("DEL", KEYS[2])
  return { 0, 0 }
end
local last = tonumber(redis.call("GET", KEYS[2]) or 0)
if last > now then
  for i = 3, 4 do
    local delayed = redis.call("ZRANGE", KEYS[i], 0, -1, "WITHSCORES")
    for k = 1, #delayed, 2 do
      redis.call("ZADD", KEYS[i], string.format("%d", delayed[k + 1] + now - last), delayed[k])
    end
  end
end
if last ~= now then
  redis.call("SET", KEYS[2], string.format("%d", now), "EX", 86400)
end

local more, moved = 0, 0
for i = 3, 4 do
  local due = redis.call("ZRANGEBYSCORE", KEYS[i], "-inf", now, "LIMIT", 0, ARGV[2])
  for _, id in ipairs(due) do
    local task = ARGV[1] .. id
    if (redis.call("HGET", task, "group") or "") == "" then
      redis.call("LPUSH", KEYS[1], id)
      redis.call("ZREM", KEYS[i], id)
      redis.call("HSET", task, "state", "pending", "pending_since", since)
      moved = moved + 1
    end
  end
  if #due == tonumber(ARGV[2]) then
    more = 1
  end
end
return { more, moved }
