package redistest

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

func TestWatchedFailsOver(t *testing.T) {
	t.Parallel()
	testrun.Slow(t)
	w := NewWatched(t, NewCertificates(t).Args(false)...)
	w.Master.Kill()
	testrun.Eventually(t, "the replica is the master", func() bool {
		return w.Replica.Client().Set(context.Background(), "k", "v", 0).Err() == nil
	})
}

func TestClusterFailsOver(t *testing.T) {
	t.Parallel()
	testrun.Slow(t)
	c := NewCluster(t, true, NewCertificates(t).Args(false)...)
	master, replica := c.Owner(t, "k")
	if err := replica.Client().Get(t.Context(), "k").Err(); !redis.HasErrorPrefix(err, "MOVED") {
		t.Fatalf("Get at the replica: %v, want MOVED", err)
	}
	master.Kill()
	testrun.Eventually(t, "the replica is the master", func() bool {
		return replica.Client().Set(context.Background(), "k", "v", 0).Err() == nil
	})
}

func TestClusterAndSentinelsAnswer(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, false)
	if master, replica := c.Owner(t, "k"); master == nil || replica != nil {
		t.Errorf("Owner = %v, %v; want a master without a replica", master, replica)
	}
}
