-- restore: data from the results store, before the record is made: a chunk of run
-- states, or the documents of a phase.
--
-- KEYS[1] record   KEYS[2] states or choice
-- ARGV[1] its bytes   ARGV[2] seconds it lives unless the record is made
-- Returns 1, or 0 when the record exists: its data are newer and stay.
-- Twice: it writes the same again.
if redis.call("EXISTS", KEYS[1]) == 1 then
  return 0
end
redis.call("SET", KEYS[2], ARGV[1], "EX", ARGV[2])
return 1
