package main

import (
	"strconv"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// TestAnotherServerIsNoticedByWorkers: when another server answers than before,
// calls wait as long as the workers' leases last; who only looks in changes
// nothing.
func TestAnotherServerIsNoticedByWorkers(t *testing.T) {
	t.Parallel()
	f := &testFleet{t: t, dir: t.TempDir(), redis: redistest.NewTCP(t)}
	f.write("fleet.yaml", "concurrency: {lease: 40s}\n")
	client := f.redis.Client()
	before := map[string]string{"epoch": "before", "run": "another", "since": "0", "blind": "0"}
	if err := client.HSet(t.Context(), "{ef}:limits", before).Err(); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := evalfleet(t, nil, "limits", "--redis", f.redis.URL()); code != 0 {
		t.Fatalf("limits: %d, %s", code, stderr)
	}
	if epoch := client.HGet(t.Context(), "{ef}:limits", "epoch").Val(); epoch != "before" {
		t.Errorf("limits began epoch %q", epoch)
	}
	launch(t, f.dir, "worker", "--redis", f.redis.URL(), "--config", "fleet.yaml")
	testrun.Eventually(t, "the worker begins an epoch", func() bool {
		return client.HGet(t.Context(), "{ef}:limits", "epoch").Val() != "before"
	})
	after := client.HGetAll(t.Context(), "{ef}:limits").Val()
	since, err := strconv.ParseInt(after["since"], 10, 64)
	blind, err2 := strconv.ParseInt(after["blind"], 10, 64)
	if err != nil || err2 != nil || time.Duration(blind-since)*time.Microsecond != 40*time.Second {
		t.Errorf("registry %v: want calls held back for 40s, the workers' lease", after)
	}
}
