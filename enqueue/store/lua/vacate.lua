-- vacate: keys that an evaluation without a record left.
--
-- KEYS[1] record   KEYS[2] runs in progress   KEYS[3…] keys that are only written while
-- there is a record
-- ARGV runs to take off the list of those in progress
-- Returns 1, or 0 where there is a record: then nothing is removed.
-- Twice: there is nothing left to remove.
if redis.call("EXISTS", KEYS[1]) == 1 then
  return 0
end
if #ARGV > 0 then
  redis.call("SREM", KEYS[2], unpack(ARGV))
end
for i = 3, #KEYS do
  redis.call("UNLINK", KEYS[i])
end
return 1
