-- delete: an evaluation's keys, all in one step.
--
-- KEYS[1] record   KEYS[2…] its other keys
-- ARGV[1] the revision that is meant   ARGV[2] phases of the record (JSON), from which
-- the keys were listed
-- Returns 1 when nothing is left of them, 0 when the record has another revision or
-- other phases by now: then nothing was done, and the keys must be listed again.
-- Twice: the record is another, or gone. Nothing comes back, because every script that
-- writes such a key asks for the record first.
local phases = redis.call("HGET", KEYS[1], "phases") or ""
if revision(KEYS[1]) ~= ARGV[1] or phases ~= ARGV[2] then
  return 0
end
for i = 1, #KEYS do
  redis.call("UNLINK", KEYS[i])
end
return 1
