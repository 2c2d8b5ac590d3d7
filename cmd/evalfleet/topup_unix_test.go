//go:build unix

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// The lock of the top-up goes from one worker to another and back, each time because
// its holder is frozen. In between, the evaluation ends and is submitted with more
// runs. The first worker does not end it by the plan that it remembers.
func TestLockOfTheTopUpReturnsToAnOlderPlan(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const limit, first, runs = 8, 40, 132
	f := newFleetWith(t, "--max-in-flight", fmt.Sprint(limit), "--latency", "1s")
	f.configure(f.provider, "concurrency: {lease: 2m}\n") // no worker loses it while it is stopped
	f.trustRedis()
	f.documents(12)
	f.file = f.evaluation("pairs", "simulator:careful", limit, 1000)
	address, err := redis.ParseURL(f.redis.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(redistest.Patient(address))
	defer client.Close()
	lock := record.Keys{Namespace: record.DefaultNamespace}.TopUpLock()
	holder := func() string { return client.Get(t.Context(), lock).Val() }

	f.startWorkers(1)
	f.onFleet(exitOK, "enqueue", f.file, "--limit", fmt.Sprint(first), "--config", "fleet.yaml")
	// It keeps the lock before each look at the evaluations: when it has kept it twice,
	// it has read this one.
	kept, left := 0, time.Duration(0)
	testrun.Eventually(t, "the first worker holds the lock and has read the evaluation", func() bool {
		now := client.PTTL(t.Context(), lock).Val()
		if now > left {
			kept++
		}
		left = now
		return kept > 2
	})
	old := holder()
	f.startWorkers(1)
	testrun.Eventually(t, "two workers are alive", func() bool {
		return client.ZCard(t.Context(), "{ef}:alive").Val() == 2
	})
	f.workers[0].signal(syscall.SIGSTOP)
	testrun.Eventually(t, "the second worker holds the lock", func() bool { return holder() != "" && holder() != old })
	f.workers[0].signal(syscall.SIGCONT)
	testrun.Eventually(t, "the first runs are made", func() bool { return f.standing().Status == record.StatusDone })

	f.onFleet(exitOK, "enqueue", f.file, "--config", "fleet.yaml")
	f.workers[1].signal(syscall.SIGSTOP)
	testrun.Eventually(t, "the lock returns to the first worker", func() bool { return holder() == old })
	time.AfterFunc(2*time.Second, func() { f.workers[1].signal(syscall.SIGCONT) })
	testrun.Eventually(t, "it is done", func() bool { return f.standing().Status == record.StatusDone })
	now := f.standing().Phases[0]
	t.Logf("done with %d of %d runs, %d in flight at most", now.Ended(), runs, f.stats().All.MaxInFlight)
	if now.Runs != runs || now.Succeeded != runs {
		t.Errorf("done with %d of %d runs, want %d", now.Succeeded, now.Runs, runs)
	}
	if s := f.stats(); s.All.MaxInFlight > limit || s.All.Rejected > 0 {
		t.Errorf("%d calls in flight under a limit of %d, %d refused", s.All.MaxInFlight, limit, s.All.Rejected)
	}
	testrun.EventuallyGot(t, "no limits are pinned after the end", func() (string, bool) {
		pinned := f.onFleet(exitOK, "limits").stdout.String()
		return pinned, !strings.Contains(pinned, "simulator")
	})
}
