package ratelimit

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// A replica, to which a client is connected, becomes the limits' master. It may
// lack what was written last, so an epoch begins before it carries the client's
// first script.
func TestReplicaBecomesMaster(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	cluster := redistest.NewCluster(t, true)
	master, replica := cluster.Owner(t, "{ef}:limits")
	var addresses []string
	for _, s := range cluster.Masters {
		addresses = append(addresses, s.Address())
	}
	// One connection to each node: no new one tells that its server is another.
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addresses, OnConnect: OnConnect("ef", shortLease), ClusterStateReloadInterval: time.Second, PoolSize: 1,
		ReadTimeout: 2 * time.Minute, WriteTimeout: 2 * time.Minute, PoolTimeout: 2 * time.Minute,
	})
	t.Cleanup(func() { _ = client.Close() })
	WatchNodes(client, "ef", shortLease)
	register(t, client, "fleet", inFlight(Scope{}, 2))
	epoch := client.HGet(t.Context(), "{ef}:limits", "epoch").Val()
	if epoch != "long" {
		t.Fatalf("epoch %q is in force, want that of the server's", epoch)
	}
	// As reading the Cluster's state does now and then.
	if err := client.ForEachSlave(t.Context(), func(ctx context.Context, c *redis.Client) error { return c.Ping(ctx).Err() }); err != nil {
		t.Fatal(err)
	}
	testrun.Eventually(t, "the replica has it all", func() bool {
		n, err := master.Client().Wait(t.Context(), 1, time.Second).Result()
		return err == nil && n == 1
	})
	master.Kill()
	if err := replica.Client().Do(t.Context(), "cluster", "failover", "takeover").Err(); err != nil {
		t.Fatal(err)
	}
	testrun.Eventually(t, "it is the master for the client", func() bool {
		return tools(client).Register(t.Context(), "another", []Limit{inFlight(Scope{Provider: "p"}, 1)}) == nil
	})
	known := replica.Client().HGetAll(t.Context(), "{ef}:limits").Val()
	since, _ := strconv.ParseInt(known["since"], 10, 64)
	blind, _ := strconv.ParseInt(known["blind"], 10, 64)
	if known["epoch"] == epoch || time.Duration(blind-since)*time.Microsecond != shortLease {
		t.Errorf("registry %v after epoch %s: want another, in which no call is admitted for %s", known, epoch, shortLease)
	}
}
