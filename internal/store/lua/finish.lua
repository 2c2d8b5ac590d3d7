-- finish: an active evaluation all of whose runs have ended.
--
-- KEYS[1] record   KEYS[2] counts
-- ARGV[1] number of runs in all phases
-- Returns 1 when every run has ended and the status is now done, else 0.
-- Twice: it answers 1 again and changes nothing.
local status = redis.call("HGET", KEYS[1], "status")
if status ~= "active" and status ~= "done" then
  return 0
end
local ended = 0
for _, n in ipairs(redis.call("HVALS", KEYS[2])) do
  ended = ended + tonumber(n)
end
if ended < tonumber(ARGV[1]) then
  return 0
end
redis.call("HSET", KEYS[1], "status", "done")
return 1
