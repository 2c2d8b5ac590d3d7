package ratelimit

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// WatchNodes makes a Cluster client do what OnConnect does, also for older connections. A replica to which the client
// may be connected can become the limits' master without notifying its clients. So a node is checked before it runs the
// first script on the limits' keys after another node did. namespace and lease are as in Config. Call it before the
// client is used.
func WatchNodes(client *redis.ClusterClient, namespace string, lease time.Duration) {
	w := &nodes{access: newAccess(nil, Config{Namespace: namespace, Lease: lease})}
	client.OnNewNode(func(node *redis.Client) { node.AddHook(watched{w, node}) })
}

// nodes is what a client knows of the nodes of its Cluster.
type nodes struct {
	access access

	mu    sync.Mutex // held while a node is checked: its scripts wait
	owner *redis.Client
}

// watched is the hook of one node.
type watched struct {
	*nodes
	node *redis.Client
}

func (watched) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w watched) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if w.concerns(cmd) && ctx.Value(looking{}) == nil {
			if err := w.look(ctx); err != nil {
				cmd.SetErr(err)
				return err
			}
		}
		return next(ctx, cmd)
	}
}

// The limiter sends no script in a pipeline.
func (watched) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// looking marks the commands that check a server: they cause no further check.
type looking struct{}

// concerns reports whether a command is a script on the limits' keys.
func (w watched) concerns(cmd redis.Cmder) bool {
	words := cmd.Args()
	if len(words) < 4 || !strings.HasPrefix(cmd.Name(), "eval") {
		return false
	}
	key, ok := words[3].(string)
	return ok && strings.HasPrefix(strings.TrimPrefix(key, "rate:"), w.access.keys.tag)
}

func (w watched) look(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.owner == w.node {
		return nil
	}
	err := w.access.recognise(ctx, w.node)
	if redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") {
		return nil // it is not the limits' master: the script goes elsewhere, too
	}
	if err == nil {
		w.owner = w.node
	}
	return err
}
