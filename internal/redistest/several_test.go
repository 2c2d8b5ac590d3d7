package redistest

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestWatchedFailsOver(t *testing.T) {
	t.Parallel()
	w := NewWatched(t, NewCertificates(t).Args(false)...)
	w.Master.Kill()
	until(t, "the replica is the master", func() bool {
		return w.Replica.Client().Set(context.Background(), "k", "v", 0).Err() == nil
	})
}

func TestClusterFailsOver(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, true, NewCertificates(t).Args(false)...)
	master, replica := c.Owner(t, "k")
	if err := replica.Client().Get(t.Context(), "k").Err(); !redis.HasErrorPrefix(err, "MOVED") {
		t.Fatalf("Get at the replica: %v, want MOVED", err)
	}
	master.Kill()
	until(t, "the replica is the master", func() bool {
		return replica.Client().Set(context.Background(), "k", "v", 0).Err() == nil
	})
}
