-- create: an evaluation's record, once everything it needs is stored.
--
-- KEYS[1] record   KEYS[2] plan   KEYS[3] documents   KEYS[4] counts
-- KEYS[5…] chunks of states that were restored
-- ARGV[1] n, the number of words of the record, then n words: field, value, …;
-- then field, value, … of the counts
-- Returns 1 when the record was made, 0 when it existed already (nothing is
-- changed), -1 when something that was stored before is missing.
-- Twice: the second time finds the record and answers 0; the caller treats
-- both answers as "it exists".
if redis.call("EXISTS", KEYS[1]) == 1 then
  return 0
end
for i = 2, #KEYS do
  if i ~= 4 and redis.call("EXISTS", KEYS[i]) == 0 then
    return -1
  end
end
local n = tonumber(ARGV[1])
for i = n + 2, #ARGV, 2 do
  redis.call("HSET", KEYS[4], ARGV[i], ARGV[i + 1])
end
for i = 2, #KEYS do
  redis.call("PERSIST", KEYS[i])
end
for i = 2, n, 2 do
  redis.call("HSET", KEYS[1], ARGV[i], ARGV[i + 1])
end
return 1
