package gate

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// One node of a cluster refuses what would cross slots.
func TestCluster(t *testing.T) {
	t.Parallel()
	bus, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, busPort, _ := net.SplitHostPort(bus.Addr().String())
	_ = bus.Close()
	server := redistest.NewTCP(t, "--cluster-enabled", "yes", "--cluster-port", busPort)
	node := server.Client()
	if err := node.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClusterClient(redistest.PatientCluster(&redis.ClusterOptions{Addrs: []string{server.Address()}}))
	t.Cleanup(func() { _ = client.Close() })
	f := newFleet(t, client)
	f.eventually("the cluster is up", func() bool {
		info, err := node.ClusterInfo(context.Background()).Result()
		return err == nil && strings.Contains(info, "cluster_state:ok")
	})

	f.push(50)
	g, _ := f.by("a", 20)
	f.pullBy(g)
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.recover("t1")
	if err := reclaim(t.Context(), client, keysOf(queueName), "a", 1); err != nil {
		t.Fatal(err)
	}
	var handled ids
	w := f.work("w1", 8, func(ctx context.Context, _ *asynq.Task) error {
		handled.add(ctx)
		return nil
	}, workerOptions{})
	f.eventually("all ended", handled.all(f, 50))
	if n, most := handled.distinct(); n != 50 || most != 1 {
		t.Errorf("%d tasks handled, one of them %d times; want 50, each once", n, most)
	}
	w.end()

	f.push(1, asynq.Unique(time.Hour))
	if n, err := Discard(t.Context(), client, queueName, Unheld, startingWith("t")); err != nil || n != 1 {
		t.Errorf("Discard = %d, %v; want 1", n, err)
	}
	if err := Expire(t.Context(), client, queueName); err != nil {
		t.Error(err)
	}
	if forgotten, err := Forget(t.Context(), client, queueName); err != nil || !forgotten {
		t.Errorf("Forget = %v, %v", forgotten, err)
	}
	if err := ForgetServers(t.Context(), client); err != nil {
		t.Error(err)
	}
	if got := w.log.except(); len(got) > 0 {
		t.Errorf("asynq logged %q, want nothing", got)
	}
}
