package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

func TestEveryRunOnceUnderALimitByManyWorkers(t *testing.T) {
	t.Parallel()
	const limit = 6
	provider := &fakeProvider{}
	reached := make(chan struct{})
	var once sync.Once
	provider.answer = func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if _, most := provider.count(); most >= limit {
			once.Do(func() { close(reached) })
		}
		select {
		case <-reached: // as many calls as may be are in flight, or have been
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		return after(20*time.Millisecond, firstWins)(ctx, n, request)
	}
	b := setup(t, provider)
	b.submit(12, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Concurrency, Max: limit}}
	})
	for range 3 {
		defer b.start(b.config())()
	}
	b.wait()
	b.wantEachOnce()
	calls, most := provider.count()
	if calls != b.runs || most > limit {
		t.Errorf("the provider saw %d calls, at most %d at once; want %d and at most %d", calls, most, b.runs, limit)
	}
	_, recorded := b.outcomes()
	if len(recorded) != b.runs {
		t.Errorf("%d calls recorded, want %d", len(recorded), b.runs)
	}
	b.waitFor("the evaluation is done", func(s store.Standing) bool { return s.Status == record.StatusDone })
}

func TestWorkersSayWhichProvidersTheyCanCall(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: after(0, firstWins)})
	stop := b.start(b.config())
	defer stop()
	testrun.EventuallyGot(t, "p is offered", func() (string, bool) {
		offered, err := b.store.Offered(t.Context())
		return fmt.Sprintf("%q, %v", offered, err), slices.Equal(offered, []string{"p"})
	})
}

func TestIdenticalTextsAreATieWithoutACall(t *testing.T) {
	t.Parallel()
	provider := &fakeProvider{answer: firstWins}
	b := setup(t, provider)
	b.submit(3, func(e *eval.Evaluation, _ map[string]string, _ *record.Settings) {
		e.Documents[1].Hash = e.Documents[0].Hash
	})
	defer b.start(b.config())()
	b.wait()
	if calls, _ := provider.count(); calls != 4 {
		t.Errorf("%d calls, want 4: two of six runs compare identical texts", calls)
	}
	ties := 0
	runs, _ := b.outcomes()
	for _, of := range runs {
		if of[0].Winner == eval.Tie {
			ties++
			if of[0].Reason != eval.ReasonIdentical || of[0].AnsweredBy != "" || of[0].Attempts != 0 {
				t.Errorf("tie recorded as %+v", of[0])
			}
		}
	}
	if ties != 2 {
		t.Errorf("%d ties, want 2", ties)
	}
}

// TestTextsThatFailAGateAreNotJudged: such a text loses in both orders, and no call is made for it.
func TestTextsThatFailAGateAreNotJudged(t *testing.T) {
	t.Parallel()
	provider := &fakeProvider{answer: firstWins}
	b := setup(t, provider)
	b.submit(3, func(e *eval.Evaluation, _ map[string]string, _ *record.Settings) {
		e.Checks = []eval.Check{{Name: "short", Kind: eval.CheckMaxWords, Value: "1", Gate: true}}
		e.Documents[0].Failed = []eval.FailedCheck{{Check: 0, Why: "it has 2 words"}}
	})
	defer b.start(b.config())()
	b.wait()
	if calls, _ := provider.count(); calls != 2 {
		t.Errorf("%d calls, want 2: four of six runs are about a text that fails a gate", calls)
	}
	lost := 0
	runs, _ := b.outcomes()
	for _, of := range runs {
		if of[0].Reason == "gate: short" && of[0].Winner != "d000.md" && of[0].Winner != eval.Tie && of[0].AnsweredBy == "" && of[0].Attempts == 0 {
			lost++
		}
	}
	if lost != 4 {
		t.Errorf("%d losses of the text without a call, want 4", lost)
	}
}

func TestFailuresAreTriedAgainAndGivenUp(t *testing.T) {
	t.Parallel()
	failing := func(failures int, class providers.Class) func(context.Context, int, *providers.Request) (*providers.Result, error) {
		return func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
			if n <= failures {
				return nil, &providers.Error{Class: class, Status: 500, Message: "no"}
			}
			return firstWins(ctx, n, request)
		}
	}
	prose := func(times int) func(context.Context, int, *providers.Request) (*providers.Result, error) {
		return func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
			if n <= times {
				return &providers.Result{Text: "I like both.", Finish: providers.FinishStop}, nil
			}
			return firstWins(ctx, n, request)
		}
	}
	for _, tt := range []struct {
		name   string
		answer func(context.Context, int, *providers.Request) (*providers.Result, error)
		class  providers.Class // of the first run; empty: it succeeds
		calls  int             // for the first run
	}{
		{"two failures", failing(2, providers.Transient), "", 3},
		{"three failures", failing(3, providers.Overloaded), providers.Overloaded, 3},
		{"no use in trying", failing(1, providers.ModelUnavailable), providers.ModelUnavailable, 1},
		{"repaired", prose(2), "", 3},
		{"not repaired", prose(3), providers.Malformed, 3},
		{"a failure after answers", func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
			if n == 3 {
				return nil, &providers.Error{Class: providers.Transient, Status: 500, Message: "no"}
			}
			return prose(2)(ctx, n, request)
		}, "", 4},
		{"asked differently", func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
			if n <= 2 {
				return nil, &providers.Error{Class: providers.BadRequest, Message: "no schemas here", Err: providers.ErrAgain}
			}
			return firstWins(ctx, n, request)
		}, "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, &fakeProvider{answer: tt.answer})
			b.submit(2, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
				s.Limits = []ratelimit.Limit{{Kind: ratelimit.Concurrency, Max: 1}}
				s.Limit = 1
			})
			defer b.start(b.config())()
			b.wait()
			b.wantEachOnce()
			runs, calls := b.outcomes()
			got := runs[0][0]
			if got.Class != tt.class || got.Attempts != tt.calls {
				t.Errorf("class %q after %d attempts (%s); want %q after %d", got.Class, got.Attempts, got.Error, tt.class, tt.calls)
			}
			if len(calls) != tt.calls {
				t.Errorf("%d calls recorded, want %d", len(calls), tt.calls)
			}
			if tt.class != "" && (got.Winner != "" || got.State != "failed") {
				t.Errorf("a failed run was recorded as %+v", got)
			}
		})
	}
}

func TestTimeoutEndsACall(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if n == 1 {
			<-ctx.Done()
			return nil, &providers.Error{Class: providers.ClassOf(ctx.Err()), Message: "too slow", Err: ctx.Err(), MayBeBilled: true}
		}
		return firstWins(ctx, n, request)
	}})
	b.submit(2, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Timeouts = map[string]time.Duration{"p": 100 * time.Millisecond}
	})
	defer b.start(b.config())()
	b.wait()
	_, calls := b.outcomes()
	timeouts := 0
	for _, call := range calls {
		if call.Class == providers.Timeout {
			timeouts++
			if !call.MaybeBill {
				t.Error("a call that timed out after it was sent is recorded as free")
			}
		}
	}
	if timeouts != 1 || len(calls) != 3 {
		t.Errorf("%d calls of which %d timed out, want 3 and 1", len(calls), timeouts)
	}
}

func TestStopGivesBackWhatWasNotBegun(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 100)
	release := make(chan struct{})
	provider := &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		begun <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
			return nil, &providers.Error{Class: providers.Cancelled, Message: "given up", Err: ctx.Err()}
		}
		return firstWins(ctx, n, request)
	}}
	b := setup(t, provider)
	b.submit(6, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Limits = []ratelimit.Limit{{Kind: ratelimit.Concurrency, Max: 2}}
	})
	stop := b.start(b.config())
	<-begun
	<-begun
	b.waitFor("a third task waits in place", func(store.Standing) bool {
		return b.store.Client().LLen(t.Context(), "asynq:{p}:active").Val() == 3
	})
	var stopping sync.WaitGroup
	stopping.Go(stop)
	// The two calls in flight may finish; nothing else is begun.
	b.waitFor("the third task is given back", func(store.Standing) bool {
		return b.store.Client().LLen(t.Context(), "asynq:{p}:active").Val() == 2
	})
	close(release)
	stopping.Wait()
	if calls, _ := provider.count(); calls != 2 {
		t.Errorf("%d calls after the stop, want the 2 in flight", calls)
	}
	if got := b.waitFor("the calls in flight are recorded", func(store.Standing) bool { return true }); got.Total(eval.StateSucceeded) != 2 {
		t.Errorf("%d runs recorded, want 2", got.Total(eval.StateSucceeded))
	}
	defer b.start(b.config())()
	b.wait()
	b.wantEachOnce()
	if calls, _ := provider.count(); calls != b.runs {
		t.Errorf("%d calls in all, want %d", calls, b.runs)
	}
}

func TestGraceEndsCallsThatTakeTooLong(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 100)
	var answering sync.Once
	provider := &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		hang := false
		answering.Do(func() { hang = true })
		if !hang {
			return firstWins(ctx, n, request)
		}
		begun <- struct{}{}
		<-ctx.Done()
		return nil, &providers.Error{Class: providers.Cancelled, Message: "given up", Err: ctx.Err(), MayBeBilled: true}
	}}
	b := setup(t, provider)
	b.submit(2, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Limits = []ratelimit.Limit{{Kind: ratelimit.Concurrency, Max: 1}}
	})
	cfg := b.config()
	cfg.Grace = 200 * time.Millisecond
	stop := b.start(cfg)
	<-begun
	stop()
	_, calls := b.outcomes()
	if len(calls) != 1 || !calls[0].MaybeBill {
		t.Errorf("calls recorded: %+v; want the one that was given up, perhaps billed", calls)
	}
	defer b.start(b.config())()
	b.wait()
	b.wantEachOnce()
}

func TestLongDelayIsSpentInTheQueue(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	provider := &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if n == 1 {
			return nil, &providers.Error{Class: providers.Overloaded, Status: 503, Message: "later", RetryAfter: run.InPlace + 500*time.Millisecond}
		}
		return firstWins(ctx, n, request)
	}}
	b := setup(t, provider)
	b.submit(2)
	begun := time.Now()
	defer b.start(b.config())()
	b.wait()
	if waited := time.Since(begun); waited < run.InPlace {
		t.Errorf("the run was made again after %s, before the provider's hint", waited)
	}
	b.wantEachOnce()
	runs, calls := b.outcomes()
	if len(calls) != 3 {
		t.Errorf("%d calls recorded, want 3", len(calls))
	}
	attempts := 0
	for _, of := range runs {
		attempts = max(attempts, of[0].Attempts)
	}
	if attempts != 2 {
		t.Errorf("the run that came back counts %d attempts, want 2", attempts)
	}
}

// A provider that is asked too much holds back every worker, and uses up no
// attempt: not even a run with a single one fails.
func TestRefusedCallsAreNoAttempts(t *testing.T) {
	t.Parallel()
	const hint, refusals = 300 * time.Millisecond, 5
	var mu sync.Mutex
	var until time.Time // no call may come before
	provider := &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		if early := time.Until(until); early > 0 {
			t.Errorf("call %d came %s before the provider's hint", n, early)
		}
		if n <= refusals {
			until = time.Now().Add(hint)
			return nil, &providers.Error{Class: providers.RateLimited, Status: 429, Message: "slow down", RetryAfter: hint}
		}
		return firstWins(ctx, n, request)
	}}
	b := setup(t, provider)
	b.submit(4, func(_ *eval.Evaluation, _ map[string]string, settings *record.Settings) {
		settings.Retry.MaxAttempts = 1
		settings.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Concurrency, Max: 1}}
	})
	defer b.start(b.config())()
	defer b.start(b.config())()
	b.wait()
	b.wantEachOnce()
	runs, calls := b.outcomes()
	if want := len(runs) + refusals; len(calls) != want {
		t.Errorf("%d calls recorded, want %d", len(calls), want)
	}
	for id, of := range runs {
		if of[0].Attempts != 1 {
			t.Errorf("run %d counts %d attempts, want 1", id, of[0].Attempts)
		}
	}
}

func TestRunWithThreeDeadWorkersIsLost(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins})
	b.submit(2)
	for _, worker := range []string{"w1", "w2", "w3"} {
		if _, err := b.store.Died(t.Context(), eval.RunID{Evaluation: b.id, Index: 0}, 0, worker); err != nil {
			t.Fatal(err)
		}
	}
	defer b.start(b.config())()
	b.wait()
	runs, _ := b.outcomes()
	if got := runs[0][0]; got.Class != providers.Lost || !strings.Contains(got.Error, "3 workers") {
		t.Errorf("run 0 ended as %+v, want class lost", got)
	}
	if got := runs[1][0]; got.State != "succeeded" {
		t.Errorf("run 1 ended as %+v", got)
	}
}

func TestNothingIsLostOrMadeTwiceWhenRedisRestarts(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	provider := &fakeProvider{answer: after(50*time.Millisecond, firstWins)}
	b := setup(t, provider, "--appendonly", "yes", "--appendfsync", "always")
	b.submit(12, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Limits = []ratelimit.Limit{{Kind: ratelimit.Concurrency, Max: 4}}
	})
	defer b.start(b.brief())()
	b.waitFor("some runs have ended", func(s store.Standing) bool { return s.Total(eval.StateSucceeded) >= 20 })
	b.server.Kill()
	time.Sleep(500 * time.Millisecond)
	b.server.Start()
	b.wait()
	b.wantEachOnce()
	calls, most := provider.count()
	if most > 4 {
		t.Errorf("%d calls in flight, want at most 4", most)
	}
	if calls > b.runs+4 {
		t.Errorf("%d calls for %d runs: more than those in flight were made again", calls, b.runs)
	}
}
