-- vacate: keys that an evaluation without a record left.
--
-- KEYS[1] record   KEYS[2…] keys that are only written while there is a record
-- Returns 1, or 0 where there is a record: then nothing is removed.
-- Twice: there is nothing left to remove.
if redis.call("EXISTS", KEYS[1]) == 1 then
  return 0
end
for i = 2, #KEYS do
  redis.call("UNLINK", KEYS[i])
end
return 1
