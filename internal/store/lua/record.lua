-- record: a run's outcome, counted once, with the calls that were made for it.
--
-- KEYS[1] record   KEYS[2] states   KEYS[3] counts   KEYS[4] progress
-- KEYS[5] results stream
-- ARGV[1] offset of the run's byte   ARGV[2] generation
-- ARGV[3] state: 1 succeeded, 2 failed, 3 cancelled
-- ARGV[4] count field of that state  ARGV[5] count field of failed
-- ARGV[6] entry version   ARGV[7] run (JSON)   ARGV[8] calls (JSON) or ""
-- Returns 1 recorded, 0 discarded (the run had ended, the generation is not the
-- run's, or the evaluation was cancelled), -1 when the evaluation is gone
-- (nothing is kept).
-- Twice: the second time the run has ended, so that only the calls are appended
-- again; they have ids, and the sink keeps each once.
local status = redis.call("HGET", KEYS[1], "status")
if not status then
  return -1
end
local byte = string.byte(redis.call("GETRANGE", KEYS[2], ARGV[1], ARGV[1])) or 0
local base = tonumber(ARGV[2]) * 4
local state = tonumber(ARGV[3])
local replaces_failure = byte == base + 2 and state == 1
if status == "cancelled" or (byte ~= base and not replaces_failure) then
  if ARGV[8] ~= "" then
    redis.call("XADD", KEYS[5], "*", "v", ARGV[6], "calls", ARGV[8])
  end
  return 0
end
redis.call("SETRANGE", KEYS[2], ARGV[1], string.char(base + state))
redis.call("HINCRBY", KEYS[3], ARGV[4], 1)
if replaces_failure then
  redis.call("HINCRBY", KEYS[3], ARGV[5], -1)
end
redis.call("DEL", KEYS[4])
if ARGV[8] ~= "" then
  redis.call("XADD", KEYS[5], "*", "v", ARGV[6], "run", ARGV[7], "calls", ARGV[8])
else
  redis.call("XADD", KEYS[5], "*", "v", ARGV[6], "run", ARGV[7])
end
return 1
