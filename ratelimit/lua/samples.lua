-- Adds what settled calls of a model used to the last samples of all workers.
--
-- KEYS  1 samples of the model
-- ARGV  samples
-- Reply how many there ever were, then the last of them
--
-- Twice is twice: a sample that counts twice changes no estimate by much.

local KEPT = 200       -- samples
local LIFE = 604800000 -- ms that they outlive the last one
for _, sample in ipairs(ARGV) do
  local n = redis.call('HINCRBY', KEYS[1], 'n', 1)
  redis.call('HSET', KEYS[1], string.format('%d', (n - 1) % KEPT), sample)
end
if #ARGV > 0 then redis.call('PEXPIRE', KEYS[1], LIFE) end
local reply = {redis.call('HGET', KEYS[1], 'n') or '0'}
local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  if fields[i] ~= 'n' then table.insert(reply, fields[i + 1]) end
end
return reply
