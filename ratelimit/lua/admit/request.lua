-- Ends leases of one worker, settles what their calls used, and admits waiting
-- calls of it, in one step.
--
-- A call is admitted under all its limits or under none. Calls come in groups
-- that share a set of limits. Groups without limits go first, the others take turns.
-- A group keeps its order, and its first refusal ends it.
--
-- KEYS  1 registry  2 alive  3 ledger of the worker  4 cooldowns, then keys of limits
-- ARGV  1 a JSON object; fields that are omitted are 0, false or empty:
--   version   of the registry that the limits were read at; omitted when only leases end
--   worker    who asks
--   channel   prefix of the wake channels
--   earliest, latest  time that the worker expects on Redis's clock (µs)
--   lease, horizon, lead, patience  µs, as in ratelimit/admit.go
--   limits    a list of
--     kind      leases, rate, window, quota, budget or weight: the file that keeps it
--     state, waiters, extra  indices of its KEYS; extra is the money of a budget and the
--               cut of a limit that adapts
--     counts    input, output, tokens or money; omitted: calls
--     charged   nothing is given back
--     max       leases, units of a window or a quota, or nano-USD
--     adapts    leases: max is the cap of a limit that is cut
--     interval, burst  rate: µs a unit, units
--     span, slot       window: what is counted, and its part (µs)
--     resets    quota: two resets before and two after the time that the worker expects (µs)
--     held      leases that the worker holds besides those that end here
--     waits     other calls of the worker wait for it
--     aged      and have waited long
--     woken     the worker was woken for it
--     stays     the worker keeps its place in the wait queue although no call waits
--   plain     ids of leases under no limit that end now
--   ends      other leases that end, a list of
--     id        of the lease
--     limits    indices of its limits
--     keep      µs that it lasts on
--     unused    its call never started
--     start     of its call (µs)
--     answered  by the provider
--     refused   index of the limit that was too high for it, as its provider refused it
--     input, output, money  that it was admitted with
--     more      the usage beyond that, below 0 for less: the same three
--     epoch     in which Redis knew it last; omitted: it is not counted where Redis has
--               forgotten it
--     left      what its provider says is left: pairs of a limit's index and units
--   groups    a list of
--     limits    indices
--     cooldowns names
--     aged      its first call has waited long
--     ids       of its calls, when it has no limits; else
--     calls     a list of id, input, output, money, and counts: µs that the lease counts
--               without renewals, omitted for a lease; of: the number of its caller, which
--               waits in several groups and wants one of its calls
-- Reply {-1} when the registry has another version, {-2} when it is not a time that the
--       worker expects, or that the resets of a quota enclose: nothing was done. Else
--       now (µs), then
--       for each limit: 1 when the worker is among its waiters, how many leases
--         of it are held, or the use of a quota or a budget (-1: it is closed; 0 for
--         another kind)
--       for each group: number admitted, µs until it should ask again (-1: never,
--         unless the budget that refused it is raised), exact µs until its next
--         call could start (0: unknown), µs that it would have to wait if
--         no call were ahead of it (0: unknown), 1 when none is, what refused it
--         (index of a limit, 0: nothing, -1: leases may be unknown, -1-k: its k-th
--         cooldown), then for each admitted call: µs from now to its start, index of
--         the limit that set the start (0: none), -1: another of its caller's calls was
--         admitted instead, or -1-k: it tries whether the outage that is its k-th cooldown
--         is over
--
-- Idempotent: an id that the ledger holds is answered with its first start
-- and charged no more; a lease that has ended is not there to end again, and one that a
-- budget had forgotten is marked when it is counted.
--
-- The files that follow share these names, in the order of ratelimit/scripts.go.

local HOUR = 3600000          -- ms that keys outlive their use
local TURN = 5000000          -- µs for which a worker may keep a slot that others could not use,
                              -- and after which a waiter for a window goes first

local registry, alive, ledger, cooldowns = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local asked = cjson.decode(ARGV[1])
local me, lease, horizon = asked.worker, asked.lease, asked.horizon
local limits, groups = asked.limits or {}, asked.groups or {}

-- The registry also says since when Redis remembers (µs, 0: always), and until
-- when leases may be unknown to it.
local known = redis.call('HMGET', registry, 'version', 'epoch', 'since', 'blind')
if asked.version and (known[2] or '') .. ':' .. (known[1] or '0') ~= asked.version then
  return {-1}
end
local epoch, since, blind = known[2] or '', tonumber(known[3] or 0), tonumber(known[4] or 0)

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < asked.earliest or now > asked.latest then return {-2} end

-- day_of returns when the day of a quota began, and its reset; nil when the resets that the
-- worker sent do not enclose Redis's time.
local function day_of(limit)
  for i = 1, #limit.resets - 1 do
    if limit.resets[i] <= now and now < limit.resets[i + 1] then return limit.resets[i], limit.resets[i + 1] end
  end
end

for _, limit in ipairs(limits) do
  if limit.resets and not day_of(limit) then return {-2} end
end

-- integer writes a number as Redis stores it: Lua itself keeps 14 digits.
local function integer(n) return string.format('%d', n) end
