-- Claims an evaluation for one results store, and removes the entries it has committed.
--
-- KEYS[1]  the evaluation's record (hash)
-- KEYS[2]  its results (stream)
-- ARGV[1]  the results store's id
-- ARGV[2]… ids of the entries to remove
--
-- Returns the id of the store that the evaluation belongs to, and the URL of the store
-- asked for at submission ("" if none); an empty list without a record.
-- Nothing changes when the evaluation belongs to another store.
--
-- Entries are removed by id and not up to an id: after a failover to a master whose
-- clock is behind, entries not yet stored are older than those that were read.
--
-- Idempotent: a repeated claim changes nothing, and a removed entry is skipped.
--

if redis.call('EXISTS', KEYS[1]) == 0 then
  return {}
end
local sink = redis.call('HGET', KEYS[1], 'sink')
if not sink or sink == '' then
  sink = ARGV[1]
  redis.call('HDEL', KEYS[1], '') -- the first write takes no memory: Redis may be full
  redis.call('HSET', KEYS[1], 'sink', sink)
end
if sink == ARGV[1] and #ARGV > 1 then
  redis.call('XDEL', KEYS[2], unpack(ARGV, 2))
end
return {sink, redis.call('HGET', KEYS[1], 'sink_url') or ''}
