-- Reads the registry: what changed since a version, or all of it.
--
-- KEYS  1 registry  2 log of its changes  3 margins
-- ARGV  1 the version that the process knows, with its epoch: '<epoch>:<version>'; "" for none
-- Reply 'part' or 'whole', the number of the registry's fields that follow, these fields, each
--       with its value, and the margins of providers likewise. In a part, the value of a holder
--       that was taken out is "".
--
-- It changes nothing. All is read at one version, because a script is not interrupted.

local known = ARGV[1]
local registry = redis.call('HMGET', KEYS[1], 'version', 'epoch', 'since')
local version, epoch = tonumber(registry[1] or 0), registry[2] or ''

-- Returns the holders that changed since the known version, or nil if the log does not tell of
-- every version since.
local function changed()
  local from = tonumber(string.match(known, ':(%d+)$') or '')
  if epoch == '' or not from or from > version or known ~= string.format('%s:%d', epoch, from) then return nil end
  if from == version then return {} end
  local entries = redis.call('LRANGE', KEYS[2], 0, version - from - 1)
  local holders, seen = {}, {}
  for i = 1, version - from do
    local entry, of = entries[i] or '', string.format('%s:%d ', epoch, version - i + 1)
    if string.sub(entry, 1, #of) ~= of then return nil end
    local holder = string.sub(entry, #of + 1)
    if holder ~= '' and not seen[holder] then
      seen[holder] = true
      table.insert(holders, holder)
    end
  end
  return holders
end

local holders, fields = changed(), nil
if holders then
  fields = {'version', string.format('%d', version), 'epoch', epoch, 'since', registry[3] or '0'}
  for _, holder in ipairs(holders) do
    table.insert(fields, holder)
    table.insert(fields, redis.call('HGET', KEYS[1], holder) or '')
  end
else
  fields = redis.call('HGETALL', KEYS[1])
end

local reply = {holders and 'part' or 'whole', string.format('%d', #fields / 2)}
for _, list in ipairs({fields, redis.call('HGETALL', KEYS[3])}) do
  for _, text in ipairs(list) do table.insert(reply, text) end
end
return reply
