package worker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

func (b *bench) enqueuer() *enqueue.Enqueuer {
	return &enqueue.Enqueuer{Store: b.store, Limits: ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{}), Log: zerolog.Nop()}
}

// atMost is a limit on the provider's calls in flight.
func atMost(n int64) func(*eval.Evaluation, map[string]string, *record.Settings) {
	return func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Concurrency, Max: n}}
	}
}

// reach waits until the provider has been called n times.
func (b *bench) reach(n int) {
	b.t.Helper()
	b.waitFor("calls were made", func(store.Standing) bool { calls, _ := b.provider.count(); return calls >= n })
}

// holdBack is a provider that answers the first calls, up to number last, and the others once
// steered is closed.
func holdBack(last int, steered <-chan struct{}, takes time.Duration) *fakeProvider {
	answer := after(takes, firstWins)
	return &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if n > last {
			select {
			case <-steered:
			case <-ctx.Done():
			}
		}
		return answer(ctx, n, request)
	}}
}

// held returns how many tasks of p the workers have in hand, and how many calls are in flight.
func (b *bench) held() (tasks, calls int) {
	b.t.Helper()
	listed, err := b.store.Client().LLen(b.t.Context(), "asynq:{p}:active").Result()
	if err != nil {
		b.t.Fatal(err)
	}
	b.provider.mu.Lock()
	defer b.provider.mu.Unlock()
	return int(listed), b.provider.inFlight
}

// wantQuiet waits until the workers have no task in hand, and fails when a call starts afterwards.
func (b *bench) wantQuiet(after string) {
	b.t.Helper()
	testrun.EventuallyGot(b.t, "no task is held after the "+after, func() (string, bool) {
		tasks, calls := b.held()
		return fmt.Sprintf("%d tasks and %d calls", tasks, calls), tasks == 0 && calls == 0
	})
	before, _ := b.provider.count()
	time.Sleep(time.Second)
	if calls, _ := b.provider.count(); calls != before {
		b.t.Errorf("%d calls were begun after the %s", calls-before, after)
	}
}

// wantNoticed waits until the workers have given back the tasks that wait for a limit on calls in
// flight, then closes steered. No task may be begun any more: those still held make one call each.
func (b *bench) wantNoticed(what string, limit int, steered chan struct{}) {
	b.t.Helper()
	b.waitFor("the workers give back what waits", func(store.Standing) bool {
		tasks, _ := b.held()
		return tasks <= limit
	})
	noticed, _ := b.provider.count()
	close(steered)
	b.wantQuiet(what)
	if calls, _ := b.provider.count(); calls > noticed+limit {
		b.t.Errorf("%d calls were begun after the workers had noticed the %s, want at most %d",
			calls-noticed, what, limit)
	}
}

func TestPauseStopsAndResumeGoesOn(t *testing.T) {
	t.Parallel()
	const limit = 4
	steered := make(chan struct{})
	b := setup(t, holdBack(40, steered, 50*time.Millisecond))
	b.submit(12, atMost(limit)) // 132 runs
	for range 2 {
		defer b.start(b.config())()
	}
	b.reach(20)
	before, _ := b.provider.count()
	if status, err := b.store.Pause(t.Context(), b.id, ""); err != nil || status != record.StatusPaused {
		t.Fatalf("Pause = %s, %v", status, err)
	}
	b.wantNoticed("pause", limit, steered)
	calls, _ := b.provider.count()
	if calls >= b.runs {
		t.Fatalf("all %d calls were made before the pause was noticed", calls)
	}
	t.Logf("%d calls when the pause was asked for, %d in all", before, calls)
	if status, err := b.enqueuer().Resume(t.Context(), b.id); err != nil || status != record.StatusActive {
		t.Fatalf("Resume = %s, %v", status, err)
	}
	b.wait()
	b.wantEachOnce()
	if calls, most := b.provider.count(); calls != b.runs || most > limit {
		t.Errorf("%d calls for %d runs, %d at once under a limit of %d", calls, b.runs, most, limit)
	}
}

// TestPauseEndsWaitsInPlace: runs that wait out a delay with the worker give
// their places back, and their attempts are not forgotten.
func TestPauseEndsWaitsInPlace(t *testing.T) {
	t.Parallel()
	busy := func(context.Context, int, *providers.Request) (*providers.Result, error) {
		return nil, &providers.Error{Class: providers.Overloaded, Message: "busy", Status: 503, RetryAfter: run.InPlace}
	}
	var b *bench
	testrun.Eventually(t, "a pause that is noticed before the waits are over", func() bool {
		b = setup(t, &fakeProvider{answer: busy})
		b.submit(2)
		began := time.Now()
		defer b.start(b.config())()
		b.reach(2)
		if _, err := b.store.Pause(t.Context(), b.id, ""); err != nil {
			t.Fatal(err)
		}
		b.waitFor("no task is held", func(store.Standing) bool {
			info, err := asynq.NewInspectorFromRedisClient(store.Universal(b.store)).GetQueueInfo("p")
			return err == nil && info.Active == 0
		})

		calls, _ := b.provider.count()
		if time.Since(began) > run.InPlace {
			return false // the machine stood still
		}
		if calls != 2 {
			t.Errorf("%d calls, want that the waits ended without another", calls)
		}
		return true
	})

	r, err := b.store.Evaluation(t.Context(), b.id)
	if err == nil {
		_, err = b.store.Resume(t.Context(), r)
	}
	if err != nil {
		t.Fatal(err)
	}
	task := record.Task{Evaluation: b.id, Kind: eval.KindPairwise}
	if checked, err := b.store.Check(t.Context(), task); err != nil || checked.Progress.Attempts != 1 {
		t.Errorf("progress of a run that was halted: %+v, %v; want 1 attempt", checked.Progress, err)
	}
}

func TestCancelEndsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	steered := make(chan struct{})
	const limit = 4
	b := setup(t, holdBack(40, steered, 100*time.Millisecond))
	b.submit(12, atMost(limit))
	defer b.start(b.config())()
	b.reach(20)
	r, err := b.store.Evaluation(t.Context(), b.id)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if status, err := b.store.Cancel(t.Context(), r); err != nil || status != record.StatusCancelled {
			t.Fatalf("Cancel = %s, %v", status, err)
		}
	}
	b.wantNoticed("cancellation", limit, steered)
	standing := b.waitFor("counted", func(store.Standing) bool { return true })
	succeeded, cancelled := standing.Total(eval.StateSucceeded), standing.Total(eval.StateCancelled)
	if succeeded+cancelled != b.runs || cancelled == 0 {
		t.Errorf("%d succeeded and %d cancelled of %d runs", succeeded, cancelled, b.runs)
	}
	runs, calls := b.outcomes()
	if made, _ := b.provider.count(); len(calls) != made {
		t.Errorf("%d of %d calls are recorded: those in flight were paid for", len(calls), made)
	}
	if len(runs) != succeeded {
		t.Errorf("%d outcomes are recorded and %d are counted", len(runs), succeeded)
	}
}

// TestDeletedWhileWorkersRun: nothing of it comes back, and others continue.
func TestDeletedWhileWorkersRun(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	b := setup(t, &fakeProvider{answer: after(100*time.Millisecond, firstWins)})
	b.submit(12, atMost(4))
	other := &bench{t: t, server: b.server, store: b.store, provider: b.provider}
	other.submit(6, func(e *eval.Evaluation, _ map[string]string, _ *record.Settings) { e.Name = "other" }, atMost(4))
	for range 2 {
		defer b.start(b.config())()
	}
	b.reach(20)
	if err := b.enqueuer().Delete(t.Context(), b.id, true); err != nil {
		t.Fatal(err)
	}
	other.wait()
	other.wantEachOnce()
	if keys := b.store.Client().Keys(t.Context(), "ef:{"+string(b.id)+"}*").Val(); len(keys) != 0 {
		t.Errorf("keys came back: %v", keys)
	}
	b.waitFor("its limits are unpinned", func(store.Standing) bool {
		active, err := b.store.Active(t.Context())
		return err == nil && len(active) == 0
	})
	if _, most := b.provider.count(); most > 4 {
		t.Errorf("%d calls at once under a limit of 4", most)
	}
	limiter := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{})
	testrun.EventuallyGot(t, "no limits are held", func() (string, bool) {
		held, err := limiter.InForce(t.Context())
		return fmt.Sprintf("%v, %v", held, err), err == nil && len(held) == 0
	})
}

func TestFailedRunsAreMadeAgain(t *testing.T) {
	t.Parallel()
	const broken = 12
	provider := &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if n <= broken {
			return nil, &providers.Error{Class: providers.BadRequest, Message: "broken", Status: 400}
		}
		return firstWins(ctx, n, request)
	}}
	b := setup(t, provider)
	b.submit(6) // 30 runs
	stop := b.start(b.config())
	defer stop()
	b.wait()
	b.waitFor("it is done", func(s store.Standing) bool { return s.Status == record.StatusDone })
	runs, _ := b.outcomes()
	retried, err := b.enqueuer().Retry(t.Context(), b.id, func(enqueue.Recorded) bool { return true })
	if err != nil || retried.Runs != broken || retried.Exhausted != 0 {
		t.Fatalf("Retry = %+v, %v; want %d runs", retried, err, broken)
	}
	for index, outcomes := range runs { // a worker of the old generation comes late
		if outcomes[0].State != eval.StateFailed.String() {
			continue
		}
		if recorded, err := b.store.Record(t.Context(), b.id, eval.StateSucceeded, outcomes[0], nil); err != nil || recorded {
			t.Errorf("late outcome of run %d: recorded %v, %v; want false", index, recorded, err)
		}
	}
	standing := b.waitFor("it is done again", func(s store.Standing) bool { return s.Status == record.StatusDone })
	if ok := standing.Total(eval.StateSucceeded); ok != b.runs || standing.Total(eval.StateFailed) != 0 {
		t.Errorf("%d of %d runs succeeded, %d failed", ok, b.runs, standing.Total(eval.StateFailed))
	}
	if calls, _ := provider.count(); calls != b.runs+broken {
		t.Errorf("%d calls, want %d", calls, b.runs+broken)
	}
	again, err := b.enqueuer().Retry(t.Context(), b.id, func(enqueue.Recorded) bool { return true })
	if err != nil || again.Runs != 0 {
		t.Errorf("Retry with nothing failed = %+v, %v", again, err)
	}
}
