-- In front of scripts that append results: outlive keeps the stream of an evaluation
-- that has ended from outliving its record. The stream may be new, and then has no end.
local function outlive(record, stream, status)
  if status == "active" then
    return
  end
  local left = redis.call("PTTL", record)
  if left > 0 then
    redis.call("PEXPIRE", stream, string.format("%d", left))
  end
end
