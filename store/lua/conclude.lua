-- conclude: an ended evaluation's result is noted in its record.
--
-- KEYS[1] record
-- ARGV[1] the result, JSON
-- Returns 1; 0 if there is no record, or it is active again.
-- Twice: the last result holds.
if not hasEnded(KEYS[1]) then
  return 0
end
redis.call("HSET", KEYS[1], "result", ARGV[1])
return 1
