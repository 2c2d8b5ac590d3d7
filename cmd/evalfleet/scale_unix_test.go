//go:build unix

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/controller"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// What a controller's /scale says of a fleet without any worker. Each line but the
// first, which is of a fleet that has nothing else, has a provider of its own, whose
// queues are asked for alone.
func TestScaleOfAFleetWithoutWorkers(t *testing.T) {
	t.Parallel()
	f := &testFleet{t: t, dir: t.TempDir(), redis: redistest.NewTCP(t)}
	f.documents(101)
	providers, limits := "", ""
	for name, allowed := range map[string]int{"due": 1000, "capped": 1000, "allows": 35, "paused": 1000} {
		providers += fmt.Sprintf("  %s: {dialect: chat, base_url: \"http://127.0.0.1:9/v1\"}\n", name)
		limits += fmt.Sprintf("    %s: {max_concurrency: %d}\n", name, allowed)
	}
	f.write("fleet.yaml", "providers:\n"+providers+"concurrency:\n  per_provider:\n"+limits)
	address := testrun.FreeAddress(t)
	launch(t, f.dir, "controller", "--redis", f.redis.URL(), "--listen", "off", "--metrics-addr", address, "--drain=false")
	f.trustRedis()
	client := f.redis.Client()
	s := store.New(client, "")
	submit := func(name, provider, documents, pairwise string, own int) eval.ID {
		t.Helper()
		file := f.write(name+".yaml", fmt.Sprintf("name: %s\ndocuments: [%q]\njudges: [\"%s:m\"]\npairwise: %s\nconcurrency: {max_concurrency: %d}\n", name, documents, provider, pairwise, own))
		return eval.ID(strings.TrimSpace(f.onFleet(exitOK, "enqueue", file, "--config", "fleet.yaml").stdout.String()))
	}
	ended := func(id eval.ID, runs int) {
		t.Helper()
		r, err := s.Evaluation(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for i := range runs {
			run := record.Run{Index: i, Kind: eval.KindPairwise, Queue: r.Phases[0].JudgeQueues[0]}
			if _, err := s.Record(t.Context(), id, eval.StateSucceeded, run, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	wants := func(query string, calls int) (said controller.Scale) {
		t.Helper()
		// An answer is up to a second old.
		testrun.EventuallyGot(t, fmt.Sprintf("/scale%s wants %d calls at once", query, calls), func() (string, bool) {
			said = controller.Scale{}
			err := getJSON(t.Context(), "http://"+address+"/scale"+query, &said)
			return fmt.Sprintf("%+v, %v", said, err), err == nil && said.Desired == calls
		})
		return said
	}

	// Paused: what is in flight, jobs that no worker waits for included.
	paused := submit("paused", "paused", "docs/d0?.md", "{pairs: all, order: both}", 1000)
	end := f.inFlight(client, paused, "paused", 7, 2)
	f.onFleet(exitOK, "pause", string(paused))
	wants("", 9)
	end()
	wants("", 0)

	// Two evaluations, one with cap 5 and 10,100 runs, one with cap 500 and none left.
	submit("narrow", "capped", "docs/*.md", "{pairs: all, order: both}", 5)
	ended(submit("wide", "capped", "docs/d0[01].md", "{pairs: all, order: both}", 500), 2)
	wants("?queue=capped", 5)

	// 73 runs could run, and the provider allows 35 in flight.
	submit("many", "allows", "docs/d0[0-8].md", "{pairs: all, order: both}", 1000)
	ended(submit("few", "allows", "docs/d0[01].md", "{pairs: all, order: both}", 1000), 1)
	if got := wants("?queue=allows", 35); len(got.Queues) != 1 || got.Queues[0].Runnable != 73 {
		t.Errorf("%+v, want 73 that could run", got)
	}

	// Delayed runs that are due soon are asked for, and come back when they are due.
	submit("due", "due", "docs/d0*.md", "{pairs: all, order: both, trials: 3}", 1000)
	const due = 10 * 9 * 3
	pending := func() (string, bool) {
		n := client.LLen(t.Context(), "asynq:{due}:pending").Val()
		return fmt.Sprint(n, " pending"), n == due
	}
	testrun.EventuallyGot(t, "all runs are in the queue", pending)
	testrun.Eventually(t, "/scale is looked at before delayed runs are due", func() bool {
		dueAt := time.Now().Add(30 * time.Second).Truncate(time.Second)
		delay(t, client, "due", dueAt)
		wants("?queue=due", due)
		_, all := pending()
		if !time.Now().Before(dueAt) {
			return false // the machine stood still
		}
		if all {
			t.Error("runs that are due in half a minute are pending")
		}
		return true
	})
	delay(t, client, "due", time.Now().Add(-time.Second))
	testrun.EventuallyGot(t, "they are pending again", pending)
	wants("?queue=due", due)
}

// inFlight begins calls of an evaluation, some as background calls.
func (f *testFleet) inFlight(client *redis.Client, id eval.ID, provider string, calls, jobs int) (end func()) {
	f.t.Helper()
	ctx, stop := context.WithCancel(f.t.Context())
	limiter := ratelimit.New(client, ratelimit.Config{Worker: "w", Lease: 10 * time.Minute})
	ended := make(chan error, 1)
	go func() { ended <- limiter.Run(ctx) }()

	var leases []*ratelimit.Lease
	for i := range calls + jobs {
		lease, err := limiter.Acquire(ctx, ratelimit.Request{
			ID: strconv.Itoa(i), Call: ratelimit.Scope{Provider: provider, Model: "m", Evaluation: string(id)}, LatestEnd: time.Minute,
		})
		if err != nil {
			f.t.Fatal(err)
		}
		if i < jobs {
			err = lease.Background(ctx, "job "+strconv.Itoa(i), time.Hour)
		} else {
			leases = append(leases, lease)
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}

	return func() {
		for _, lease := range leases {
			lease.End()
		}
		for i := range jobs {
			if err := ratelimit.NewAdmin(client, ratelimit.Config{}).EndBackground(ctx, "job "+strconv.Itoa(i), nil); err != nil {
				f.t.Error(err)
			}
		}
		stop()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
	}
}

// delay makes all waiting tasks of a queue wait to be retried at a time.
func delay(t *testing.T, client *redis.Client, queue string, at time.Time) {
	t.Helper()
	ctx, prefix := t.Context(), "asynq:{"+queue+"}:"
	ids, err := client.LRange(ctx, prefix+"pending", 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	later, err := client.ZRange(ctx, prefix+"retry", 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	pipe := client.TxPipeline()
	pipe.Del(ctx, prefix+"pending")
	for _, id := range append(ids, later...) {
		pipe.ZAdd(ctx, prefix+"retry", redis.Z{Score: float64(at.Unix()), Member: id})
		pipe.HSet(ctx, prefix+"t:"+id, "state", "retry")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
}
