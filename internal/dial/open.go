package dial

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/gate"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
)

// Open makes a client of a fleet's Redis, and asks nothing. namespace is the
// fleet's; asynq's keys have it in front unless it is the default.
//
// lease is for those who make calls under leases: how long these last. Each
// connection then notices when another server answers than before, which may lack
// leases. 0: the client only looks in, and leaves that to them.
func (a *Address) Open(namespace string, lease time.Duration) redis.UniversalClient {
	redis.SetLogger(quiet{}) // who waits for Redis reports it once
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

// reloadEvery is how often a Cluster is asked at least who has which slots: that a
// dead master's are another's is not found out otherwise.
const reloadEvery = 2 * time.Second

// clientName is how our connections are called in CLIENT LIST.
const clientName = "evalfleet"

// quiet drops what go-redis would print about every failed dial.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
