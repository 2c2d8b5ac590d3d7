-- Precedes each of asynq's scripts that end a task, and leaves their KEYS and ARGV
-- unchanged. Four arguments are added at the end:
--
-- ARGV[#ARGV-3] what the handler has written as the task's result, or ""
-- ARGV[#ARGV-2] which of KEYS is the task's
-- ARGV[#ARGV-1] worker id
-- ARGV[#ARGV]   number of the pull that the handler had; "" for a task without a
-- handler, whose lease has ended: any
--
-- A task that is not, or no longer, held by this pull is left alone and the answer
-- is OK: its current holder ends it. That also makes running it twice safe, even if
-- this worker has pulled the task again meanwhile.
do
  local task = KEYS[tonumber(ARGV[#ARGV - 2])]
  local holder = redis.call("HMGET", task, "owner", "pull")
  if holder[1] ~= ARGV[#ARGV - 1] or ARGV[#ARGV] ~= "" and holder[2] ~= ARGV[#ARGV] then
    return redis.status_reply("OK")
  end
  redis.call("HDEL", task, "owner", "pull")
  if ARGV[#ARGV - 3] ~= "" then
    redis.call("HSET", task, "result", ARGV[#ARGV - 3])
  end
end
