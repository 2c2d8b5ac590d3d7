-- revision precedes every script that compares an evaluation's runnable content.
--
-- revision(record) identifies the evaluation's record and its runnable content. It
-- changes when the record is made again (created), when settings, runs or cursors
-- change (revision), and when a phase is chosen (chosen). An absent field counts
-- as 0.
-- revisionOf(created, revision, chosen) is the same from the fields of a record.
local function revisionOf(created, revision, chosen)
  return (created or "0") .. "." .. (revision or "0") .. "." .. (chosen or "0")
end
local function revision(record)
  return revisionOf(unpack(redis.call("HMGET", record, "created", "revision", "chosen")))
end
