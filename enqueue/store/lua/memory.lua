-- In front of scripts that acknowledge results: memory names what this server remembers, by
-- its run and by the history of its data, or "" if it does not tell. Under another name, what
-- was acknowledged before may be missing: the server was restarted, or another one took over.
local function memory()
  local server, replication = redis.pcall("INFO", "server"), redis.pcall("INFO", "replication")
  if type(server) ~= "string" or type(replication) ~= "string" then
    return ""
  end
  local run, history = string.match(server, "run_id:(%x+)"), string.match(replication, "master_replid:(%x+)")
  return run and history and string.sub(run, 1, 16) .. string.sub(history, 1, 16) or ""
end
