-- Runs another script several times. Its text replaces the line
-- of marks below.
--
-- KEYS those of the script for the first time, for the second, ...
-- ARGV[1] how many times; ARGV[2] and ARGV[3] numbers of keys and of arguments
-- each time
-- ARGV[4] ... arguments for the first time, for the second, ...
--
-- Returns the answer of each time. An error that the script answers is that
-- time's answer; one that it runs into ends the whole, and what was done before
-- stays done. Running it twice has the effect of running the script twice.
local function once(KEYS, ARGV)
----
end

local function part(list, first, n)
  local words = {}
  for i = 1, n do
    words[i] = list[first + i]
  end
  return words
end

local answers = {}
local keys, args = tonumber(ARGV[2]), tonumber(ARGV[3])
for i = 1, tonumber(ARGV[1]) do
  answers[i] = once(part(KEYS, (i - 1) * keys, keys), part(ARGV, 3 + (i - 1) * args, args))
end
return answers
