-- unlist: an evaluation is taken off a list.
--
-- KEYS[1] the list   KEYS[2] its listings: evaluation, the listing in force
-- ARGV[1] evaluation   ARGV[2] the listing that is meant, "" for one of an earlier release
-- Returns 1 when it is off the list, 0 when it was listed again since.
-- Twice: it is off the list, or was listed again.
if (redis.call("HGET", KEYS[2], ARGV[1]) or "") ~= ARGV[2] then
  return 0
end
redis.call("HDEL", KEYS[2], ARGV[1])
redis.call("SREM", KEYS[1], ARGV[1])
return 1
