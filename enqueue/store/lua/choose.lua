-- choose: the documents of an open phase, written once.
--
-- KEYS[1] record   KEYS[2] the phase's choice   KEYS[3] counts
-- ARGV[1] phases as they were read (JSON)   ARGV[2] phases from now on (JSON)
-- ARGV[3] the choice   ARGV[4] number of runs in the phases before
-- ARGV[5] when the record was made, Unix ms   ARGV[6…] count fields of the phases before
-- Returns 1 when the phase is chosen, 0 when nothing was changed: the record has other
-- phases by now or is another, it is cancelled, or earlier runs are retried; -1 when there is no
-- record.
-- Twice: the second time the record has other phases.
local known = redis.call("HMGET", KEYS[1], "phases", "status", "created")
if not known[1] then
  return -1
end
if known[1] ~= ARGV[1] or known[3] ~= ARGV[5] or known[2] == "cancelled" then
  return 0
end
local ended = 0
for i = 6, #ARGV do
  ended = ended + tonumber(redis.call("HGET", KEYS[3], ARGV[i]) or "0")
end
if ended < tonumber(ARGV[4]) then
  return 0
end
redis.call("SET", KEYS[2], ARGV[3])
redis.call("HSET", KEYS[1], "phases", ARGV[2])
redis.call("HINCRBY", KEYS[1], "chosen", 1)
return 1
