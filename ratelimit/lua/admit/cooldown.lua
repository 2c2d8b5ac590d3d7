-- Cooldowns: a hash of "<end> <word> <step>" by scope, written by lua/cooldown.lua.

local PROBE = 1000000  -- µs that the one call after a cooldown is alone
local PROVE = 60000000 -- µs that the one call in an outage is alone, unless it ends before
local SOON = 10000000  -- µs after which the others ask again: an answer may end the outage
local AGAIN = 10000000 -- µs that a paced cooldown is remembered, as in lua/cooldown.lua

-- cooling is the wait for the end of a group's cooldown and its place in the group; 0 when
-- there is none.
local function cooling(group)
  if #group.cooldowns == 0 then return 0, 0 end
  if not group.cooled then group.cooled = redis.call('HMGET', cooldowns, unpack(group.cooldowns)) end
  local wait, bound = 0, 0
  for k = 1, #group.cooldowns do
    local ends, word = string.match(group.cooled[k] or '', '^(%d+) (%a+)')
    local left = ends and ends - now or 0
    if word == 'out' or word == 'proving' then left = math.min(left, SOON) end
    if left > wait then wait, bound = left, k end
  end
  return wait, bound
end

-- probe ends the cooldowns that are over: a first call starts, and is alone;
-- when that has passed too, the cooldown is gone. After a paced one no call is alone. An
-- outage ends with an answer alone: its place in the group is returned.
local function probe(group, start)
  local outage
  for k, name in ipairs(group.cooldowns) do
    local saved = group.cooled and group.cooled[k]
    if saved then
      local ends, word = string.match(saved, '^(%d+) (%a+)')
      if word == 'probe' or word == 'paced' and ends + AGAIN <= now then
        redis.call('HDEL', cooldowns, name)
      elseif word == 'out' or word == 'proving' then
        redis.call('HSET', cooldowns, name,
          string.format('%d proving %s', now + start + PROVE, string.match(saved, '%d+$')))
        outage = k
      elseif word ~= 'paced' then
        redis.call('HSET', cooldowns, name,
          string.format('%d probe %s', now + start + PROBE, string.match(saved, '%d+$')))
      end
      for _, other in ipairs(groups) do other.cooled = nil end
    end
  end
  return outage
end
