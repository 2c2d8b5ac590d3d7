-- list: an evaluation is put on a list.
--
-- KEYS[1] the list   KEYS[2] its listings: evaluation, the listing in force
-- ARGV[1] evaluation   ARGV[2] names this listing
-- Returns 1 when it was not on the list, else 0.
-- Twice: it is on the list, under the same listing.
redis.call("HDEL", KEYS[2], "") -- the first write takes no memory: Redis may be full
redis.call("HSET", KEYS[2], ARGV[1], ARGV[2])
return redis.call("SADD", KEYS[1], ARGV[1])
