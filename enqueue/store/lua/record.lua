-- record: outcomes of runs of one evaluation, each counted once, with the calls
-- that were made for it.
--
-- KEYS[1] record   KEYS[2] counts   KEYS[3] results stream   KEYS[4] runs in
-- progress, then for each run: states, progress
-- ARGV[1] entry version, then for each run: offset of its byte, generation,
-- state (1 succeeded, 2 failed, 3 cancelled), count field of that state, count
-- field of failed, provider whose streak of failures it ends or continues, or "",
-- class of the failure, or "" if it ends it, the run as it is listed among
-- those in progress, run (JSON), calls (JSON) or ""
-- Returns for each run 1 recorded, 1 + n if it is the n-th of its provider that
-- failed so in a row, 0 discarded (the run had ended, or the generation is not the
-- run's), -2 discarded because the evaluation was cancelled, -1 when the evaluation
-- is gone (nothing is kept); then the id of the last entry that was appended, or "",
-- the server's memory, and for each run the job that its progress had (JSON), or "".
-- Twice: the second time the run has ended, so that only the calls are appended
-- again; they have ids, and the store keeps each once. The same applies to a run
-- that comes twice in one call.
local known = redis.call("HMGET", KEYS[1], "status", "streaks")
local status, streaks, struck = known[1], known[2] and cjson.decode(known[2]) or {}, false
local answer, counts, over, listed = {}, {}, {}, {}
local entry, jobs = "", {}

-- A script whose first write takes no memory may end although Redis is full: paid
-- results are still recorded when nothing is enqueued any more.
redis.call("HDEL", KEYS[1], "")

-- The bytes of all runs are read at once.
local bytes = {}
if status then
  for i = 2, #ARGV, 10 do
    local key = KEYS[5 + (i - 2) / 10 * 2]
    local offset, chunk = tonumber(ARGV[i]), bytes[key]
    if not chunk then
      bytes[key] = { first = offset, last = offset, written = {} }
    else
      chunk.first, chunk.last = math.min(chunk.first, offset), math.max(chunk.last, offset)
    end
  end
  for key, chunk in pairs(bytes) do
    chunk.states = redis.call("GETRANGE", key, chunk.first, chunk.last)
  end
end

-- strike counts a failure of a provider, or ends its streak, and returns how many
-- there are in a row.
local function strike(provider, class)
  local streak = streaks[provider]
  if class == "" then
    if streak then
      streaks[provider], struck = nil, true
    end
    return 0
  end
  local n = streak and streak[1] == class and streak[2] + 1 or 1
  streaks[provider], struck = { class, n }, true
  return n
end

for i = 2, #ARGV, 10 do
  local at = 5 + (i - 2) / 10 * 2
  local offset, base, state = tonumber(ARGV[i]), ARGV[i + 1] * 4, tonumber(ARGV[i + 2])
  local provider, class, run, calls = ARGV[i + 5], ARGV[i + 6], ARGV[i + 8], ARGV[i + 9]
  local result, job = -1, ""
  if status then
    local chunk = bytes[KEYS[at]]
    local byte = chunk.written[offset] or string.byte(chunk.states, offset - chunk.first + 1) or 0
    local replaces_failure = byte == base + 2 and state == 1
    if status == "cancelled" or (byte ~= base and not replaces_failure) then
      result = status == "cancelled" and -2 or 0
      if calls ~= "" then
        entry = redis.call("XADD", KEYS[3], "*", "v", ARGV[1], "calls", calls)
      end
    else
      result = 1
      chunk.written[offset] = base + state
      redis.call("SETRANGE", KEYS[at], offset, string.char(base + state))
      counts[ARGV[i + 3]] = (counts[ARGV[i + 3]] or 0) + 1
      if replaces_failure then
        counts[ARGV[i + 4]] = (counts[ARGV[i + 4]] or 0) - 1
      end
      job = redis.call("HGET", KEYS[at + 1], "job") or ""
      over[#over + 1] = KEYS[at + 1]
      listed[#listed + 1] = ARGV[i + 7]
      if provider ~= "" then
        result = 1 + strike(provider, class)
      end
      if calls ~= "" then
        entry = redis.call("XADD", KEYS[3], "*", "v", ARGV[1], "run", run, "calls", calls)
      else
        entry = redis.call("XADD", KEYS[3], "*", "v", ARGV[1], "run", run)
      end
    end
  end
  answer[#answer + 1], jobs[#jobs + 1] = result, job
end
if status then
  outlive(KEYS[1], KEYS[3], status)
end
for field, n in pairs(counts) do
  redis.call("HINCRBY", KEYS[2], field, n)
end
if struck then
  if next(streaks) then
    redis.call("HSET", KEYS[1], "streaks", cjson.encode(streaks))
  else
    redis.call("HDEL", KEYS[1], "streaks")
  end
end
if #over > 0 and redis.call("DEL", unpack(over)) > 0 then -- few runs had any
  redis.call("SREM", KEYS[4], unpack(listed))
end
answer[#answer + 1] = entry
answer[#answer + 1] = memory()
answer[#answer + 1] = jobs
return answer
