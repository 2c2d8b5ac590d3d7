-- Ends completed tasks of one queue that are not kept. It is the guard and asynq's
-- script of that purpose in one, for several tasks at once: KEYS and ARGV are
-- those of a script made by batch.Script.
--
-- KEYS for each task: asynq:{queue}:active, :lease, :t:<id>, :processed:<day>,
-- :processed
-- ARGV[1] number of tasks; ARGV[2] and ARGV[3] numbers of keys (5) and of
-- arguments (7) for each
-- ARGV[4] ... for each task: its id, when the day's count expires (Unix seconds),
-- the highest count, the task's result, which of its keys is the task's, worker
-- id, number of the pull
--
-- An id occurs once among the active ones, the first pulled last.
--
-- Returns each task's answer: OK, also for one that is not, or no longer, held
-- by this pull, which is left alone; or NOT FOUND for one that is not active. Running
-- it twice is safe: the first run removes the owner with the task.
local answers, ended, tasks, days = {}, {}, {}, {}
for i = 1, tonumber(ARGV[1]) do
  local key, arg = (i - 1) * 5, 3 + (i - 1) * 7
  local id, task, day = ARGV[arg + 1], KEYS[key + 3], KEYS[key + 4]
  local holder = redis.call("HMGET", task, "owner", "pull")
  if holder[1] ~= ARGV[arg + 6] or holder[2] ~= ARGV[arg + 7] then
    answers[i] = redis.status_reply("OK")
  elseif redis.call("LREM", KEYS[1], -1, id) == 0 then
    answers[i] = redis.error_reply("NOT FOUND")
  else
    answers[i] = redis.status_reply("OK")
    ended[#ended + 1] = id
    tasks[#tasks + 1] = task
    days[day] = (days[day] or 0) + 1
  end
end
if #ended > 0 then
  redis.call("ZREM", KEYS[2], unpack(ended))
  redis.call("DEL", unpack(tasks))
  for day, n in pairs(days) do
    if redis.call("INCRBY", day, n) == n then
      redis.call("EXPIREAT", day, ARGV[5])
    end
  end
  -- asynq begins anew at the highest count.
  if redis.call("GET", KEYS[5]) == ARGV[6] then
    redis.call("DEL", KEYS[5])
  end
  redis.call("INCRBY", KEYS[5], #ended)
end
return answers
