-- finish: an active evaluation all of whose runs have ended.
--
-- KEYS[1] record   KEYS[2] counts
-- ARGV[1] the revision by which all runs have ended
-- Returns 1 when every run has ended and the status is now done, else 0, also
-- where the revision is another. The number of runs is the record's own: no plan
-- that a process remembers ends an evaluation.
-- Twice: it answers 1 again and changes nothing.
local known = redis.call("HMGET", KEYS[1], "status", "phases")
local status = known[1]
if (status ~= "active" and status ~= "done") or revision(KEYS[1]) ~= ARGV[1] then
  return 0
end
local missing = 0
for _, phase in ipairs(cjson.decode(known[2])) do
  if phase.open then
    return 0
  end
  missing = missing + phase.runs
end
for _, n in ipairs(redis.call("HVALS", KEYS[2])) do
  missing = missing - tonumber(n)
end
if missing > 0 then
  return 0
end
redis.call("HDEL", KEYS[1], "") -- the first write takes no memory: Redis may be full
redis.call("HSET", KEYS[1], "status", "done")
return 1
