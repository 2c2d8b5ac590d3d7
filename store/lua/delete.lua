-- delete: an evaluation's keys, all in one step.
--
-- KEYS[1] record   KEYS[2…] its other keys
-- ARGV[1] phases of the record (JSON), from which the keys were listed
-- Returns 1 when nothing is left of them, 0 when the record has other phases by
-- now: then nothing was done, and the keys must be listed again.
-- Twice: there is nothing left to delete. Nothing comes back, because every
-- script that writes such a key asks for the record first.
local phases = redis.call("HGET", KEYS[1], "phases")
if phases and phases ~= ARGV[1] then
  return 0
end
for i = 1, #KEYS do
  redis.call("UNLINK", KEYS[i])
end
return 1
