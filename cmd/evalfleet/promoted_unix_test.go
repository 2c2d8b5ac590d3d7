//go:build unix

package main

import (
	"net"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// TestReplicaThatLacksWritesIsPromoted: Redis dies, and a replica takes its place that lacks most
// calls. Neither a budget nor a daily quota lets more calls begin than it allows, and what was
// answered is not asked for again.
func TestReplicaThatLacksWritesIsPromoted(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const replicated, lost = 20, 60 // calls that the replica has, and that it lacks
	for name, c := range map[string]struct {
		limit func(*testFleet)
		want  func(*testing.T, *testFleet, *program)
	}{
		"a budget": {
			limit: func(f *testFleet) {
				f.documents(20)
				f.budgeted(200)
			},
			want: func(t *testing.T, f *testFleet, p *program) {
				wantStopped(t, p)
				f.wantSpentWithin(200, 2*16) // those in flight when Redis died are charged what they may cost
				if got := f.stats().All; got.Retaken > 2*16 {
					t.Errorf("%d calls were made again, want at most those in flight when Redis died", got.Retaken)
				}
			},
		},
		"a daily quota": {
			limit: func(f *testFleet) { f.daily("simulator", replicated+lost+10, "") },
			want: func(t *testing.T, f *testFleet, p *program) {
				f.until("the quota is used", func(s seen) bool { return s.All.Arrived >= replicated+lost+10 })
				outlast(t, 3*time.Second) // in which more would come
				if got := f.stats().All.Arrived; got != replicated+lost+10 {
					t.Errorf("the simulator saw %d calls in a day, want %d", got, replicated+lost+10)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleetWith(t, "--answer-tokens", "100", "--latency", "100ms")
			calls := newTurnstile(t, f.provider)
			f.priced(calls.URL, lapses)
			c.limit(f)
			network := newWire(t, f.redis.URL())
			for range 2 {
				launch(t, f.dir, "worker", "--redis", network.url(), "--config", "fleet.yaml")
			}
			calls.allow(replicated)
			p := launch(t, f.dir, "enqueue", "evaluation.yaml", "--wait", "--out-dir", "out", "--redis", network.url(), "--config", "fleet.yaml")
			f.until("calls are answered", func(s seen) bool { return s.All.Answered >= replicated })

			replica := redistest.NewTCP(t)
			separate := follow(t, replica, f.redis)
			separate()
			calls.allow(lost)
			f.until("many more are", func(s seen) bool { return s.All.Answered >= replicated+lost })
			f.redis.Kill()
			f.redis = replica
			network.lead(replica.Address())
			calls.open()
			c.want(t, f, p)
		})
	}
}

// follow lets a replica follow a master until it holds what the master holds. separate then ends
// that.
func follow(t *testing.T, replica, master *redistest.Server) (separate func()) {
	t.Helper()
	client := replica.Client()
	of := func(host, port string) {
		t.Helper()
		if err := client.ReplicaOf(t.Context(), host, port).Err(); err != nil {
			t.Fatal(err)
		}
	}
	host, port, err := net.SplitHostPort(master.Address())
	if err != nil {
		t.Fatal(err)
	}

	of(host, port)
	testrun.Eventually(t, "the replica follows", func() bool {
		info, err := client.InfoMap(t.Context(), "replication").Result()
		return err == nil && info["Replication"]["master_link_status"] == "up"
	})
	return func() { of("NO", "ONE") }
}
