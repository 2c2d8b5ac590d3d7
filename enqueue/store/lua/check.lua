-- check: whether pulled tasks of one evaluation may still do anything.
--
-- KEYS[1] record, then for each task: states, progress of its run
-- ARGV for each task: offset of the run's byte, generation of the task, its
-- provider
-- Returns the revision, Redis's time (Unix µs), then for each task: verdict, n, then n
-- words of the progress hash: field, value, …; none where it is dropped as "paused" or
-- "ended".
-- The verdict is "run", or why the task is to be dropped: "gone" (no record),
-- "paused" (the evaluation, or the provider for it), "cancelled", "ended" (the run
-- has ended, or the task is of another generation).
-- Twice: it only reads.
local known = redis.call("HMGET", KEYS[1], "status", "paused")
local status, pauses = known[1], known[2] and cjson.decode(known[2]) or {}
local drop = not status and "gone" or (status == "paused" or status == "cancelled") and status

-- The bytes of all runs are read at once, and few have progress.
local bytes, progress, some = {}, {}, false
for i = 1, #ARGV, 3 do
  local at = 2 + (i - 1) / 3 * 2
  progress[#progress + 1] = KEYS[at + 1]
  if not drop then
    local offset, chunk = tonumber(ARGV[i]), bytes[KEYS[at]]
    if not chunk then
      bytes[KEYS[at]] = { first = offset, last = offset }
    else
      chunk.first, chunk.last = math.min(chunk.first, offset), math.max(chunk.last, offset)
    end
  end
end
for key, chunk in pairs(bytes) do
  chunk.states = redis.call("GETRANGE", key, chunk.first, chunk.last)
end
if drop ~= "paused" then
  some = redis.call("EXISTS", unpack(progress)) > 0
end

local time = redis.call("TIME")
local answer = { revision(KEYS[1]), string.format("%d%06d", time[1], time[2]) }
for i = 1, #ARGV, 3 do
  local at = 2 + (i - 1) / 3 * 2
  local verdict, words = drop, {}
  if not verdict and pauses[ARGV[i + 2]] then
    verdict = "paused"
  end
  if not verdict then
    local chunk = bytes[KEYS[at]]
    local byte = string.byte(chunk.states, ARGV[i] - chunk.first + 1) or 0
    if byte ~= ARGV[i + 1] * 4 then
      verdict = "ended"
    else
      verdict = "run"
    end
  end
  if some and verdict ~= "paused" and verdict ~= "ended" then
    words = redis.call("HGETALL", KEYS[at + 1])
  end
  answer[#answer + 1] = verdict
  answer[#answer + 1] = string.format("%d", #words)
  for _, word in ipairs(words) do
    answer[#answer + 1] = word
  end
end
return answer
