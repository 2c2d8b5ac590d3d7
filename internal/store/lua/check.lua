-- check: whether pulled tasks of one evaluation may still do anything.
--
-- KEYS[1] record, then for each task: states, progress of its run
-- ARGV for each task: offset of the run's byte, generation of the task
-- Returns for each task: verdict, n, then n words of the progress hash: field,
-- value, … The verdict is "run", or why the task is to be dropped: "gone" (no
-- record), "paused", "cancelled", "ended" (the run has ended, or the task is of
-- another generation).
-- Twice: it only reads.
local status = redis.call("HGET", KEYS[1], "status")
local drop = not status and "gone" or (status == "paused" or status == "cancelled") and status

-- The bytes of all runs are read at once, and few have progress.
local bytes, progress, some = {}, {}, false
if not drop then
  for i = 1, #ARGV, 2 do
    local offset, chunk = tonumber(ARGV[i]), bytes[KEYS[i + 1]]
    if not chunk then
      bytes[KEYS[i + 1]] = { first = offset, last = offset }
    else
      chunk.first, chunk.last = math.min(chunk.first, offset), math.max(chunk.last, offset)
    end
    progress[#progress + 1] = KEYS[i + 2]
  end
  for key, chunk in pairs(bytes) do
    chunk.states = redis.call("GETRANGE", key, chunk.first, chunk.last)
  end
  some = redis.call("EXISTS", unpack(progress)) > 0
end

local answer = {}
for i = 1, #ARGV, 2 do
  local verdict, words = drop, {}
  if not verdict then
    local chunk = bytes[KEYS[i + 1]]
    local byte = string.byte(chunk.states, ARGV[i] - chunk.first + 1) or 0
    if byte ~= ARGV[i + 1] * 4 then
      verdict = "ended"
    else
      verdict = "run"
      if some then
        words = redis.call("HGETALL", KEYS[i + 2])
      end
    end
  end
  answer[#answer + 1] = verdict
  answer[#answer + 1] = string.format("%d", #words)
  for _, word in ipairs(words) do
    answer[#answer + 1] = word
  end
end
return answer
