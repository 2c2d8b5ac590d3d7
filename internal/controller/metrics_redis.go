package controller

import (
	"context"
	"strconv"

	"github.com/evalfleet/evalfleet/internal/queue/gate"
)

var (
	evictedKeys = gauge(
		"evalfleet_redis_evicted_keys",
		"Keys that Redis has evicted since it started. Anything but 0 loses work: its maxmemory-policy must be noeviction.",
	)
	memoryUsed   = gauge("evalfleet_redis_memory_bytes", "Memory that Redis uses.")
	memoryMax    = gauge("evalfleet_redis_memory_max_bytes", "Memory that Redis may use; 0: no limit.")
	aofEnabled   = gauge("evalfleet_redis_aof_enabled", "1 if Redis writes an append-only file.")
	aofWriteOK   = gauge("evalfleet_redis_aof_last_write_ok", "1 if the last write to the append-only file succeeded.")
	aofRewriteOK = gauge("evalfleet_redis_aof_last_rewrite_ok", "1 if the last rewrite of the append-only file succeeded.")
)

// field is a field of a server's INFO. For the masters of a Cluster, amounts are added up, and a
// state is the worst of all.
type field struct {
	name   string
	of     metric
	amount bool
}

// redisFields lists the exported fields by section of INFO.
var redisFields = map[string][]field{
	"stats":  {{"evicted_keys", evictedKeys, true}},
	"memory": {{"used_memory", memoryUsed, true}, {"maxmemory", memoryMax, true}},
	"persistence": {
		{"aof_enabled", aofEnabled, false}, {"aof_last_write_status", aofWriteOK, false}, {"aof_last_bgrewrite_status", aofRewriteOK, false},
	},
}

// gatherRedis reports the INFO of the server, or of the masters of a Cluster. Fields that a server does not report are
// left out.
func (c *Controller) gatherRedis(ctx context.Context, tell tell) {
	said := said{}
	for section, wanted := range redisFields {
		_ = gate.Info(ctx, c.store.Client(), section, func(fields map[string]string) {
			for _, f := range wanted {
				if value, ok := infoValue(fields[f.name]); ok {
					said.add(f, value)
				}
			}
		})
	}
	for of, value := range said {
		tell(of, value)
	}
}

// said holds what the INFO of all servers says.
type said map[metric]float64

func (s said) add(f field, value float64) {
	before, told := s[f.of]
	switch {
	case f.amount:
		value += before
	case told:
		value = min(value, before)
	}
	s[f.of] = value
}

// infoValue returns a field of INFO as a number. A status is 1 if it is ok, and 0 if it is err.
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
