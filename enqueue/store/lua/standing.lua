-- standing: an evaluation's progress, in one command.
--
-- KEYS[1] record   KEYS[2] cursors   KEYS[3] counts   KEYS[4] results stream
-- Returns {status or "", paused providers (JSON) or "", version of the record,
-- revision, why the fleet stopped it or "", length of the stream, number of words of
-- the cursors, field, value, … of the cursors, field, value, … of the counts}.
-- Twice: it only reads.
local cursors = redis.call("HGETALL", KEYS[2])
local known = redis.call("HMGET", KEYS[1], "status", "paused", "v", "created", "revision", "chosen", "stopped")
local answer = {
  known[1] or "",
  known[2] or "",
  known[3] or "",
  revisionOf(known[4], known[5], known[6]),
  known[7] or "",
  string.format("%d", redis.call("XLEN", KEYS[4])),
  string.format("%d", #cursors),
}
for _, word in ipairs(cursors) do
  answer[#answer + 1] = word
end
for _, word in ipairs(redis.call("HGETALL", KEYS[3])) do
  answer[#answer + 1] = word
end
return answer
