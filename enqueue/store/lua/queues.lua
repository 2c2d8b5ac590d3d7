-- queues: queues are put on the list.
--
-- KEYS[1] the list
-- ARGV queues
-- Returns how many were not on it.
-- Twice: they are on it.
redis.call("SREM", KEYS[1], "") -- the first write takes no memory: Redis may be full
return redis.call("SADD", KEYS[1], unpack(ARGV))
