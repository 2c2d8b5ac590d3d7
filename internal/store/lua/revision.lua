-- revision is put in front of every script that compares what is to run.
--
-- revision(record) names the evaluation's record and what it says is to run. It
-- changes when the record is made again (created), when settings, runs or cursors
-- change (revision), and when a phase is chosen (chosen). An absent field counts
-- as 0.
local function revision(record)
  local known = redis.call("HMGET", record, "created", "revision", "chosen")
  return (known[1] or "0") .. "." .. (known[2] or "0") .. "." .. (known[3] or "0")
end

