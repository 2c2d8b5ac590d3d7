-- restore: a chunk of run states known from the sink, before the record is made.
--
-- KEYS[1] record   KEYS[2] states
-- ARGV[1] the chunk's bytes   ARGV[2] seconds it lives unless the record is made
-- Returns 1, or 0 when the record stands: its states are newer and stay.
-- Twice: it writes the same again.
if redis.call("EXISTS", KEYS[1]) == 1 then
  return 0
end
redis.call("SET", KEYS[2], ARGV[1], "EX", ARGV[2])
return 1
