package dial

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/queue/gate"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Open returns a client of a fleet's Redis, without connecting yet. namespace is the fleet's; it
// prefixes asynq's keys unless it is the default.
//
// lease is the length of leases, for processes that make calls under leases. Each connection then
// notices when another server answers than before, which may lack leases. 0: the client only reads,
// and leaves that to such processes.
func (a *Address) Open(namespace string, lease time.Duration) redis.UniversalClient {
	redis.SetLogger(quiet{}) // the code that waits for Redis logs it once
	var recognise func(context.Context, *redis.Conn) error
	if lease > 0 {
		recognise = ratelimit.OnConnect(namespace, lease)
	}
	var client redis.UniversalClient
	switch {
	case a.watched != nil:
		o := *a.watched
		o.ClientName, o.OnConnect = clientName, recognise
		client = redis.NewFailoverClient(&o)
	case a.cluster != nil:
		o := *a.cluster
		o.ClientName, o.OnConnect = clientName, recognise
		o.ClusterStateReloadInterval = reloadEvery
		cluster := redis.NewClusterClient(&o)
		if lease > 0 {
			ratelimit.WatchNodes(cluster, namespace, lease)
		}
		client = cluster
	default:
		o := *a.one
		o.ClientName, o.OnConnect = clientName, recognise
		client = redis.NewClient(&o)
	}

	if prefix := (record.Keys{Namespace: namespace}).Asynq(); prefix != "" {
		client.AddHook(gate.Prefixed(prefix))
	}
	return client
}

// reloadEvery is the longest time between two reads of a Cluster's slots. A client does not find
// out otherwise that another master has taken over those of a dead one.
const reloadEvery = 2 * time.Second

// clientName is the name of our connections in CLIENT LIST.
const clientName = "evalfleet"

// quiet drops what go-redis would print about every failed connection.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
