-- What scripts that change the registry share.
--
-- The log of changes has an entry for each version of the registry, the newest first:
-- '<epoch>:<version> <holder>' with the holder whose limits changed, nothing if none did. A
-- process that knows a version reads only what changed since: read.lua. A script that raises the
-- version without an entry, as those of earlier releases do, leaves a gap.

local LOGGED = 256 -- entries
local LOGGED_FOR = 86400000 -- ms that the log outlives its last entry

local FORMER_FOR = 10800000 -- ms that limits are kept when they are out of force, more than their calls may last

-- keep_former keeps the limits of a holder that are out of force. What Redis stores of them moves
-- with its clock, because they may come back: see clock.lua.
local function keep_former(former, limits, now)
  redis.call('ZREMRANGEBYSCORE', former, '-inf', now - FORMER_FOR * 1000)
  redis.call('ZADD', former, now, limits)
  redis.call('PEXPIRE', former, FORMER_FOR)
end

-- Raises the version, and has every live worker read the registry. Returns the version.
local function registry_changed(registry, log, alive, channel, holder, now)
  local version = redis.call('HINCRBY', registry, 'version', 1)
  local epoch = redis.call('HGET', registry, 'epoch') or ''
  redis.call('LPUSH', log, string.format('%s:%d %s', epoch, version, holder))
  if redis.call('LLEN', log) > LOGGED then redis.call('RPOP', log) end
  redis.call('PEXPIRE', log, LOGGED_FOR)
  for _, worker in ipairs(redis.call('ZRANGEBYSCORE', alive, now, '+inf')) do
    redis.call('PUBLISH', channel .. worker, 'limits')
  end
  return version
end
