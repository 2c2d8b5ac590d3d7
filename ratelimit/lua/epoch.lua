-- memory_of names the memory that an epoch has: of the epochs that began because the clock was
-- set, that of the epoch before.
local function memory_of(epoch)
  return string.match(epoch, '@(.*)$') or epoch
end
