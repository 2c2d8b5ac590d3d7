-- append: calls of a run that has not ended.
--
-- KEYS[1] record   KEYS[2] results stream
-- ARGV[1] entry version   ARGV[2] calls (JSON)
-- Returns 1, or -1 when the evaluation is gone: nothing is kept, and its stream
-- does not come back.
-- Twice: the calls are appended again; they have ids, and the sink keeps each
-- once.
if redis.call("EXISTS", KEYS[1]) == 0 then
  return -1
end
redis.call("HDEL", KEYS[1], "") -- a first write that takes no memory: see record
redis.call("XADD", KEYS[2], "*", "v", ARGV[1], "calls", ARGV[2])
return 1
