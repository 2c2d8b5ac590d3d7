-- Tells how late calls to a provider were sent, and how far its network path varies, and adapts
-- the margin that paced rates keep for both.
--
-- When the margin falls, or the path gets longer, each rate that keeps it pauses for as long.
-- Calls that were paced with the margin before, together with those paced with the new one, then
-- never arrive in a window in greater number than the limit allows: see ratelimit/margin.go.
--
-- KEYS  1 registry  2 alive  3 margins  4 log of the registry's changes, then the arrival times
--       of the rates that keep the margin
-- ARGV  1 a JSON object:
--   version   of the registry that the rates were read at
--   channel   prefix of the wake channels
--   provider  whose margin it is
--   send, path  the margins wanted by what was seen, within their bounds (µs)
--   most      send before anything was seen (µs)
--   first, watch  µs after which the greatest margin wanted since replaces a greater one: at
--             least first, and a third of the time since the beginning, but not more than watch
--   rates     for each rate, how its pause depends on the change of the margin:
--     stretch   by how much longer it pauses, because its burst goes on
--     gain      by what part of a rise, because its burst is worth longer intervals then
--     step      µs, because its burst is a whole number of calls
-- Reply {-1} when the registry has another version: nothing was done. Else 1 when the
--       margin has changed, else 0, and the margins: send, path
--
-- Idempotent: what was seen counts as the greatest, whether once or twice.

local asked = cjson.decode(ARGV[1])
local known = redis.call('HMGET', KEYS[1], 'version', 'epoch')
if (known[2] or '') .. ':' .. (known[1] or '0') ~= asked.version then return {-1} end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local EPOCH = 1483228800 -- s, 2017: where redis_rate's times begin
local numbers = {}
for n in string.gmatch(redis.call('HGET', KEYS[3], asked.provider) or '', '%d+') do
  table.insert(numbers, tonumber(n))
end
local send, path = numbers[1] or asked.most, numbers[2] or asked.path
local seen_send, seen_path, since = numbers[3] or 0, numbers[4] or 0, numbers[5] or now
local born = math.min(numbers[6] or now, now)
local was_send, was_path = send, path

seen_send, seen_path = math.max(seen_send, asked.send), math.max(seen_path, asked.path)
send, path = math.max(send, asked.send), math.max(path, asked.path)
since = math.min(since, now) -- the clock was set
local seen_for = now - since
if seen_for >= asked.first and (seen_for >= asked.watch or 3 * seen_for >= now - born) then
  send, path = seen_send, seen_path
  seen_send, seen_path, since = asked.send, asked.path, now
end
redis.call('HSET', KEYS[3], asked.provider,
  string.format('%d %d %d %d %d %d', send, path, seen_send, seen_path, since, born))
redis.call('PEXPIRE', KEYS[3], 86400000)
if send == was_send and path == was_path and #numbers > 0 then return {0, send, path} end
local pause = math.max(0, was_send + was_path - send - path) + math.max(0, path - was_path)

for i = 5, #KEYS do
  local saved = redis.call('GET', KEYS[i])
  if saved then
    local rate = asked.rates[i - 4]
    local longer = math.ceil(pause * rate.stretch + math.max(0, send + path - was_send - was_path) * rate.gain + rate.step)
    local tat = math.floor((tonumber(saved) + EPOCH) * 1000000 + 0.5) + longer - EPOCH * 1000000
    local life = redis.call('PTTL', KEYS[i]) + math.ceil(longer / 1000)
    redis.call('SET', KEYS[i], string.format('%d.%06d', math.floor(tat / 1000000), tat % 1000000), 'PX', life)
  end
end
registry_changed(KEYS[1], KEYS[4], KEYS[2], asked.channel, '', now)
return {1, send, path}
