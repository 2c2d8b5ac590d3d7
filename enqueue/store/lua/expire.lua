-- expire: an evaluation that has ended is kept for a while.
--
-- KEYS[1] record   KEYS[2] results stream   KEYS[3…] its other keys
-- ARGV[1] seconds   ARGV[2] 1: only if no result waits and no time is set yet; or 0
-- ARGV[3] the revision that is meant
-- Returns 1 if a time is set now; 0 if none is: it has not ended, or has another
-- revision, or with ARGV[2] = 1 results wait.
-- Twice: the time starts again, or with ARGV[2] = 1 it is unchanged.
if revision(KEYS[1]) ~= ARGV[3] or not hasEnded(KEYS[1]) then
  return 0
end
if ARGV[2] == "1" then
  if redis.call("PTTL", KEYS[1]) > 0 then
    return 1
  end
  if redis.call("XLEN", KEYS[2]) > 0 then
    return 0
  end
end
for i = 1, #KEYS do
  redis.call("EXPIRE", KEYS[i], ARGV[1])
end
return 1
