-- Sets entries aside that no results store can take.
--
-- KEYS[1]  the results (stream)
-- KEYS[2]  the entries that were set aside (stream)
-- ARGV[1]  about how many of those are kept
-- ARGV[2]  seconds for which they are
-- ARGV[3]… for each entry: its id, a number of values, the fields and values that are kept of it
--
-- Returns how many were set aside.
--
-- Idempotent: an entry that is gone is set aside no more.
--

local aside, i = 0, 3
while i <= #ARGV do
  local n = tonumber(ARGV[i + 1])
  -- This write comes first because it takes no memory: Redis may be full.
  if redis.call('XDEL', KEYS[1], ARGV[i]) == 1 then
    redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[1], '*', unpack(ARGV, i + 2, i + 1 + n))
    aside = aside + 1
  end
  i = i + 2 + n
end
redis.call('EXPIRE', KEYS[2], ARGV[2])
return aside
