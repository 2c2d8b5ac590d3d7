package collect

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// restoreBudget restores the budget of an evaluation from a results store.
func restoreBudget(ctx context.Context, s *store.Store, limits *ratelimit.Admin, id eval.ID, reader results.Reader, drain func(context.Context) error) error {
	return Restoration{Store: s, Limits: limits, Evaluation: id, Budget: true, Results: reader, Log: zerolog.Nop(), Drain: drain}.Restore(ctx)
}

// Redis has lost its last writes, and a worker records its calls again only after the results
// were drained: the budget opens once the worker has told that it has, and counts them.
func TestRestoreWaitsForWorkers(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), redistest.New(t)
	client := server.Client()
	s := store.New(client, "")
	cfg := ratelimit.Config{Lease: time.Hour, Worker: "w"}
	limits := ratelimit.NewAdmin(client, cfg)
	e, texts := pairOf("budgeted")
	id := e.ID()
	settings := record.Settings{Priority: 1, Retry: record.DefaultRetry, Limits: []ratelimit.Limit{ratelimit.Budget(string(id), ratelimit.Dollar)}}
	q := &enqueue.Enqueuer{Store: s, Limits: limits, Log: zerolog.Nop()}
	if _, err := q.Submit(ctx, enqueue.Submission{Evaluation: e, Texts: texts, Settings: settings}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := limits.Remember(ctx); err != nil {
		t.Fatal(err)
	}
	limiter := ratelimit.New(client, cfg)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- limiter.Run(running) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	<-limiter.Beating()
	tell := func(recorded string) {
		t.Helper()
		if err := s.Tell(ctx, "w", record.Worker{V: record.WorkerVersion, Recorded: &recorded}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	tell("an earlier memory")

	f := &Collector{Store: s, Log: zerolog.Nop(), Open: func(ctx context.Context, _ record.Evaluation) (results.Store, error) {
		return results.Open(ctx, "sqlite://"+filepath.Join(t.TempDir(), "results.db"))
	}}
	_, db, err := f.OpenEvaluation(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var drains atomic.Int64
	collector := results.NewCollector(client, s.Keys(), id, db, results.Options{Log: zerolog.Nop()})
	restored := make(chan error, 1)
	go func() {
		restored <- restoreBudget(ctx, s, limits, id, db, func(ctx context.Context) error {
			drains.Add(1)
			_, err := collector.Drain(ctx)
			return err
		})
	}()
	testrun.Eventually(t, "it has drained, and waits for the worker", func() bool { return drains.Load() >= 3 || len(restored) > 0 })
	if closed, _, err := limits.Untold(ctx, string(id)); err != nil || !closed {
		t.Errorf("the budget is closed: %t, %v; want that while the worker has not recorded its calls again", closed, err)
	}

	usd := 0.25
	call := record.Call{ID: "c0", Stage: "verdict", Model: "p:m", Attempt: 1, Status: 200, Asked: began, Started: began.Add(-time.Second), Ended: began, Usage: providers.Usage{Reported: true, CostUSD: &usd}}
	if _, err := s.AppendCalls(ctx, id, []record.Call{call}); err != nil {
		t.Fatal(err)
	}
	memory, _, err := limits.Memory(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tell(memory)
	if err := <-restored; err != nil {
		t.Fatal(err)
	}
	usage, err := limits.Usage(ctx)
	if err != nil || len(usage) != 1 || usage[0].Closed || usage[0].Spent != ratelimit.Dollar/4 {
		t.Errorf("Usage = %+v, %v; want $0.25 spent", usage, err)
	}
}

// budgetedOf submits an evaluation with a budget of a dollar, and opens its results store.
func budgetedOf(t *testing.T, client redis.UniversalClient) (s *store.Store, limits *ratelimit.Admin, id eval.ID, db results.Store) {
	t.Helper()
	ctx := t.Context()
	s = store.New(client, "")
	limits = ratelimit.NewAdmin(client, ratelimit.Config{Lease: time.Second})
	e, texts := pairOf("budgeted")
	id = e.ID()
	settings := record.Settings{Priority: 1, Retry: record.DefaultRetry, Limits: []ratelimit.Limit{ratelimit.Budget(string(id), ratelimit.Dollar)}}
	q := &enqueue.Enqueuer{Store: s, Limits: limits, Log: zerolog.Nop()}
	if _, err := q.Submit(ctx, enqueue.Submission{Evaluation: e, Texts: texts, Settings: settings}); err != nil {
		t.Fatal(err)
	}
	f := &Collector{Store: s, Log: zerolog.Nop(), Open: func(ctx context.Context, _ record.Evaluation) (results.Store, error) {
		return results.Open(ctx, "sqlite://"+filepath.Join(t.TempDir(), "results.db"))
	}}
	_, db, err := f.OpenEvaluation(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return s, limits, id, db
}

// Redis loses writes a second time while a budget is restored: what was summed before does not open
// it, because calls may be missing in the sum.
func TestRestoreStartsOverAfterAnotherLoss(t *testing.T) {
	t.Parallel()
	ctx, client := t.Context(), redistest.New(t).Client()
	s, limits, id, db := budgetedOf(t, client)
	collector := results.NewCollector(client, s.Keys(), id, db, results.Options{Log: zerolog.Nop()})
	drains := 0
	err := restoreBudget(ctx, s, limits, id, db, func(ctx context.Context) error {
		_, err := collector.Drain(ctx)
		if drains++; err != nil || drains > 1 {
			return err
		}
		usd, now := 0.25, time.Now()
		call := record.Call{ID: "c0", Stage: "verdict", Model: "p:m", Attempt: 1, Status: 200, Asked: now, Started: now, Ended: now, Usage: providers.Usage{Reported: true, CostUSD: &usd}}
		if _, err := s.AppendCalls(ctx, id, []record.Call{call}); err != nil {
			return err
		}
		return client.HSet(ctx, "{ef}:limits", "epoch", "another").Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	usage, err := limits.Usage(ctx)
	if err != nil || len(usage) != 1 || usage[0].Closed || usage[0].Spent != ratelimit.Dollar/4 {
		t.Errorf("Usage = %+v, %v after %d drains; want $0.25 spent", usage, err, drains)
	}
}

// A worker died while Redis's clock was ahead, so that its heartbeat seems to be valid for long: no
// budget waits for it.
func TestRestoreDoesNotWaitForAHeartbeatThatNobodyRenews(t *testing.T) {
	t.Parallel()
	ctx, client := testrun.Context(t), redistest.New(t).Client()
	s, limits, id, db := budgetedOf(t, client)
	ahead := redis.Z{Member: "dead", Score: float64(time.Now().Add(time.Hour).UnixMicro())}
	if err := client.ZAdd(ctx, "{ef}:alive", ahead).Err(); err != nil {
		t.Fatal(err)
	}
	recorded := "an earlier memory"
	if err := s.Tell(ctx, "dead", record.Worker{V: record.WorkerVersion, Lease: time.Second, Recorded: &recorded}, time.Hour); err != nil {
		t.Fatal(err)
	}
	err := restoreBudget(ctx, s, limits, id, db, func(context.Context) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if closed, _, err := limits.Untold(ctx, string(id)); err != nil || closed {
		t.Errorf("the budget is closed: %t, %v", closed, err)
	}
}

// Redis's clock was ahead when its memory began, and is corrected while a budget waits for the end of
// the grace period: it does not wait for as long as the clock was ahead.
func TestRestoreFollowsRedisClock(t *testing.T) {
	t.Parallel()
	ctx, client := t.Context(), redistest.New(t).Client()
	s, limits, id, db := budgetedOf(t, client)
	if err := limits.Remember(ctx); err != nil {
		t.Fatal(err)
	}
	endsIn := func(d time.Duration) {
		t.Helper()
		if err := client.HSet(ctx, "{ef}:limits", "blind", time.Now().Add(d).UnixMicro()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	endsIn(time.Hour)
	asked := func() int { return callsOf(t, client, "hmget") }
	before := asked()
	restored := make(chan error, 1)
	go func() {
		restored <- restoreBudget(ctx, s, limits, id, db, func(context.Context) error { return nil })
	}()
	testrun.Eventually(t, "the grace period is asked for again and again", func() bool { return asked() > before+10 })
	endsIn(0)
	select {
	case err := <-restored:
		if err != nil {
			t.Fatal(err)
		}
	case <-testrun.Context(t).Done():
		t.Fatal("the budget waits for an hour")
	}
	if closed, _, err := limits.Untold(ctx, string(id)); err != nil || closed {
		t.Errorf("the budget is closed: %t, %v", closed, err)
	}
}

// callsOf returns how often a command was called.
func callsOf(t *testing.T, client redis.UniversalClient, command string) (calls int) {
	t.Helper()
	stats, err := client.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(stats) {
		if _, counts, ok := strings.Cut(line, "cmdstat_"+command+":"); ok {
			if _, err := fmt.Sscanf(counts, "calls=%d", &calls); err != nil {
				t.Fatal(err)
			}
		}
	}
	return calls
}

// Runs of an evaluation that Redis lost are pulled again only when every live worker has recorded
// again what it knows of it: also one that takes longer than most, and for longer than a call may
// need.
func TestSettleWaitsForWorkersThatKnowMore(t *testing.T) {
	t.Parallel()
	ctx, client := t.Context(), redistest.New(t).Client()
	s := store.New(client, "")
	cfg := ratelimit.Config{Lease: time.Hour, Worker: "w"}
	limits := ratelimit.NewAdmin(client, cfg)
	if err := limits.Remember(ctx); err != nil {
		t.Fatal(err)
	}
	memory, _, err := limits.Memory(ctx)
	if err != nil {
		t.Fatal(err)
	}
	limiter := ratelimit.New(client, cfg)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- limiter.Run(running) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	<-limiter.Beating()
	tell := func(recorded string, lost ...eval.ID) {
		t.Helper()
		if err := s.Tell(ctx, "w", record.Worker{V: record.WorkerVersion, Recorded: &recorded, Lost: lost}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}

	for what, late := range map[string]func(){
		"has not looked in this memory": func() { tell("an earlier memory") },
		"has not found the record yet":  func() { tell(memory, "ev-another", "ev-lost") },
	} {
		late()
		settled := make(chan error, 1)
		go func() { settled <- Settle(s, limits, "ev-lost", zerolog.Nop())(ctx) }()
		select {
		case err := <-settled:
			t.Errorf("a worker %s, and is not waited for; %v", what, err)
			continue
		case <-time.After(SettleTime + time.Second):
		}
		tell(memory, "ev-another")
		if err := <-settled; err != nil {
			t.Error(err)
		}
	}
}
