-- take: a lock is taken, or a claim made.
--
-- KEYS[1] the lock
-- ARGV[1] its holder   ARGV[2] its life, ms
-- Returns 1 when it was taken, 0 when there is one. That lives no longer than a life from now:
-- the end of a key's life is a time of day, and Redis's clock may have been set back since.
-- Twice: there is one.
redis.call("PEXPIRE", KEYS[1], ARGV[2], "LT") -- the first write takes no memory: Redis may be full
if redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then
  return 1
end
return 0
