-- steered is put in front of the scripts that pause an evaluation or take it up again.
--
-- steered(record, token) reports whether this command has changed the record before: a
-- client that got no answer sends it once more, and meanwhile another command may have
-- done the opposite. noted(record, token) notes that it does now. The record remembers
-- the last eight.
local function steered(record, token)
  local known = redis.call("HGET", record, "steered") or ""
  return string.find(known, token, 1, true) ~= nil
end
local function noted(record, token)
  -- A script whose first write takes no memory may end although Redis is full: people stop
  -- what they like.
  redis.call("HDEL", record, "")
  local words = { token }
  for word in string.gmatch(redis.call("HGET", record, "steered") or "", "%S+") do
    if #words < 8 then
      words[#words + 1] = word
    end
  end
  redis.call("HSET", record, "steered", table.concat(words, " "))
end
