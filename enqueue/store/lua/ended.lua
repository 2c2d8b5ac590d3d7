-- In front of scripts that act on evaluations that have ended: hasEnded(record) reports whether
-- one has, as record.HasEnded does. One whose best candidates are known (until) is paused.
local function hasEnded(record)
  local known = redis.call("HMGET", record, "status", "stopped")
  return known[1] == "done" or known[1] == "cancelled" or known[1] == "paused" and known[2] == "until"
end
