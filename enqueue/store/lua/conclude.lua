-- conclude: an ended evaluation's result is noted in its record.
--
-- KEYS[1] record
-- ARGV[1] the revision that is meant   ARGV[2] the result, JSON
-- Returns 1; 0 if there is no record, or it is active again; -1 if it has another revision.
-- Twice: the last result holds.
if revision(KEYS[1]) ~= ARGV[1] then
  return -1
end
if not hasEnded(KEYS[1]) then
  return 0
end
redis.call("HDEL", KEYS[1], "") -- the first write takes no memory: Redis may be full
redis.call("HSET", KEYS[1], "result", ARGV[2])
return 1
