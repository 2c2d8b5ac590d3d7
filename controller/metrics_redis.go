package controller

import (
	"context"
	"strconv"
)

var (
	evictedKeys  = gauge("evalfleet_redis_evicted_keys", "Keys that Redis has evicted since it started. Anything but 0 loses work: its maxmemory-policy must be noeviction.")
	memoryUsed   = gauge("evalfleet_redis_memory_bytes", "Memory that Redis uses.")
	memoryMax    = gauge("evalfleet_redis_memory_max_bytes", "Memory that Redis may use; 0: any.")
	aofEnabled   = gauge("evalfleet_redis_aof_enabled", "1 when Redis writes what it has to its append-only file.")
	aofWriteOK   = gauge("evalfleet_redis_aof_last_write_ok", "1 when the last write to it worked.")
	aofRewriteOK = gauge("evalfleet_redis_aof_last_rewrite_ok", "1 when the last rewrite of it worked.")
)

// redisFields are what is told of each section of what the server says of itself.
var redisFields = map[string]map[string]metric{
	"stats":  {"evicted_keys": evictedKeys},
	"memory": {"used_memory": memoryUsed, "maxmemory": memoryMax},
	"persistence": {
		"aof_enabled": aofEnabled, "aof_last_write_status": aofWriteOK, "aof_last_bgrewrite_status": aofRewriteOK,
	},
}

// gatherRedis tells what the server says of itself; some managed servers do not.
func (c *Controller) gatherRedis(ctx context.Context, tell tell) {
	for section, wanted := range redisFields {
		info, err := c.store.Client().InfoMap(ctx, section).Result()
		if err != nil {
			continue
		}
		for _, fields := range info {
			for name, of := range wanted {
				if value, ok := infoValue(fields[name]); ok {
					tell(of, value)
				}
			}
		}
	}
}

// infoValue is a field of INFO as a number: a status is 1 when it is ok.
func infoValue(text string) (value float64, ok bool) {
	switch text {
	case "ok":
		return 1, true
	case "err":
		return 0, true
	}
	value, err := strconv.ParseFloat(text, 64)
	return value, err == nil
}
