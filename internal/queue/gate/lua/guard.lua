-- Precedes each of asynq's scripts that end a task, and leaves their KEYS and ARGV
-- unchanged. Three arguments are added at the end:
--
-- ARGV[#ARGV-2] what the handler has written as the task's result, or ""
-- ARGV[#ARGV-1] which of KEYS is the task's
-- ARGV[#ARGV]   worker id
--
-- A task that is not, or no longer, this worker's is left alone and the answer
-- is OK: its current owner ends it. That also makes running it twice safe.
do
  local task = KEYS[tonumber(ARGV[#ARGV - 1])]
  if redis.call("HGET", task, "owner") ~= ARGV[#ARGV] then
    return redis.status_reply("OK")
  end
  redis.call("HDEL", task, "owner", "pull")
  if ARGV[#ARGV - 2] ~= "" then
    redis.call("HSET", task, "result", ARGV[#ARGV - 2])
  end
end
