-- Reads the next entries of an evaluation's results, at most so many and about so
-- many bytes.
--
-- KEYS[1]  the results (stream)
-- ARGV[1]  where to begin, as XRANGE takes it: "-", or "(" and the last id read
-- ARGV[2]  the most entries
-- ARGV[3]  bytes after which no more entries are taken
--
-- Returns a list: 1 where more may follow, else 0; then, as XRANGE returns them,
-- the entries: at least one if there is any.
--
-- Safe to run twice: it changes nothing.

local most, room, page = tonumber(ARGV[2]), tonumber(ARGV[3]), 16
local taken, bytes, from = {1}, 0, ARGV[1]
while #taken <= most do
  local read = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', page)
  for _, entry in ipairs(read) do
    if bytes >= room or #taken > most then
      return taken
    end
    table.insert(taken, entry)
    for _, field in ipairs(entry[2]) do
      bytes = bytes + #field
    end
    from = '(' .. entry[1]
  end
  if #read < page then
    taken[1] = 0
    return taken
  end
end
return taken
