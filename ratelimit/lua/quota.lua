-- How much of a quota was used before the current epoch, for scripts that count on from there.
--
-- The state of a quota is a hash: `used` until `reset`; the `epoch` that wrote the other fields;
-- `base`, the use that Redis remembered when that epoch began, or a worker if that is more; and
-- the use that others reported from before it: told:<who>, by results stores, and ran:<id>, by calls in flight when Redis lost
-- its memory. The sum of those reports (`before`) may overlap with `base`, so the greater of the
-- two counts. A quota counted since its last reset is `whole` and takes no reports.

-- enter_epoch makes what a quota remembers of earlier epochs its base, and of earlier days
-- nothing.
local function enter_epoch(state, epoch, now)
  redis.call('HDEL', state, '') -- the first write takes no memory: collecting empties a full Redis
  local saved = redis.call('HMGET', state, 'epoch', 'used', 'reset')
  local open = tonumber(saved[3] or 0) > now
  if saved[1] == epoch and (open or not saved[3]) then return end
  for _, field in ipairs(redis.call('HKEYS', state)) do
    if not open or field ~= 'used' and field ~= 'reset' and field ~= 'closed' then redis.call('HDEL', state, field) end
  end
  redis.call('HSET', state, 'epoch', epoch, 'base', open and saved[2] or '0')
end

-- tell_quota counts units of the time before the epoch under a field, in place of those
-- it had. It returns the use in all, and whether the quota is open.
local function tell_quota(state, epoch, field, units, now)
  enter_epoch(state, epoch, now)
  local saved = redis.call('HMGET', state, 'used', 'reset', 'base', 'before', field, 'whole')
  local used, open = tonumber(saved[1] or 0), tonumber(saved[2] or 0) > now
  if open and saved[6] then return used, true end
  local base, was = tonumber(saved[3]), tonumber(saved[4] or 0)
  local is = was + units - tonumber(saved[5] or 0)
  redis.call('HSET', state, field, string.format('%d', units), 'before', string.format('%d', is))
  used = open and used + math.max(base, is) - math.max(base, was) or is
  if open then redis.call('HSET', state, 'used', string.format('%d', used)) end
  return used, open
end

-- remember_use makes a quota remember at least the use that a worker was told of before the
-- epoch. A quota that Redis has forgotten stays closed: other workers may know more.
local function remember_use(state, epoch, used, began, reset, since, now)
  enter_epoch(state, epoch, now)
  local saved = redis.call('HMGET', state, 'used', 'reset', 'base', 'before', 'whole')
  local open, base, before = tonumber(saved[2] or 0) > now, tonumber(saved[3] or 0), tonumber(saved[4] or 0)
  if saved[5] or used <= base or began > now or reset <= now then return end
  local counted = open and tonumber(saved[1] or 0) - math.max(base, before) or 0
  redis.call('HSET', state, 'base', string.format('%d', used), 'used', string.format('%d', counted + math.max(used, before)))
  if open then return end
  redis.call('HSET', state, 'reset', string.format('%d', reset))
  if since > began then redis.call('HSET', state, 'closed', '1') end
  redis.call('PEXPIRE', state, math.ceil((reset - now) / 1000) + 86400000) -- as in admit/quota.lua
end

-- ran_before counts a call that was in flight when Redis lost its memory, once.
local function ran_before(state, epoch, id, now)
  if epoch == redis.call('HGET', state, 'epoch') and redis.call('HEXISTS', state, 'ran:' .. id) == 1 then return end
  tell_quota(state, epoch, 'ran:' .. id, 1, now)
  if redis.call('PTTL', state) < 0 then redis.call('PEXPIRE', state, 172800000) end -- two days
end
