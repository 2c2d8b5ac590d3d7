-- append: calls of a run that has not ended.
--
-- KEYS[1] record   KEYS[2] results stream
-- ARGV[1] entry version   ARGV[2] calls (JSON)
-- Returns {the entry's id, the server's memory}, or {"", memory} when the evaluation is
-- gone: nothing is kept, and its stream does not come back.
-- Twice: the calls are appended again; they have ids, and the results store keeps each
-- once.
local status = redis.call("HGET", KEYS[1], "status")
if not status then
  return { "", memory() }
end
redis.call("HDEL", KEYS[1], "") -- a first write that takes no memory: see record
local entry = redis.call("XADD", KEYS[2], "*", "v", ARGV[1], "calls", ARGV[2])
outlive(KEYS[1], KEYS[2], status)
return { entry, memory() }
