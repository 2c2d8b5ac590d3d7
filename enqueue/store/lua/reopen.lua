-- reopen: an evaluation that is not active, with other settings.
--
-- KEYS[1] record   KEYS[2] cursors   KEYS[3] documents   KEYS[4…] its other keys
-- ARGV[1] settings (JSON)   ARGV[2] phases (JSON)
-- ARGV[3] the command's token
-- ARGV[4] when the record was made, Unix ms
-- ARGV[5] version of the record
-- ARGV[6…] hash, text (zstd) of texts that the settings name and may be missing
-- Returns 1 when the settings are in force and the evaluation is active, 0 when
-- it was active or cancelled, or is another record, and is unchanged. Cursors restart: recorded runs
-- are skipped when runs are pushed. The revision is raised, the result deleted.
-- Twice: the second time finds its token and returns 1, even if it was paused
-- between, which it stays.
if steered(KEYS[1], ARGV[3]) then
  return 1
end
local status = redis.call("HGET", KEYS[1], "status")
if redis.call("HGET", KEYS[1], "created") ~= ARGV[4] then
  return 0
end
if status ~= "done" and status ~= "paused" then
  return 0
end
noted(KEYS[1], ARGV[3])
redis.call("HSET", KEYS[1], "v", ARGV[5], "status", "active", "stopped", "", "settings", ARGV[1], "phases", ARGV[2])
redis.call("HINCRBY", KEYS[1], "revision", 1)
redis.call("HDEL", KEYS[1], "paused", "streaks", "result")
redis.call("DEL", KEYS[2])
for i = 6, #ARGV, 2 do
  redis.call("HSET", KEYS[3], ARGV[i], ARGV[i + 1])
end
for i = 1, #KEYS do
  redis.call("PERSIST", KEYS[i])
end
return 1
