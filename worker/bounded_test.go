package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/ask"
	"github.com/evalfleet/evalfleet/worker/internal/call"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// A run that panics whatever it does ends after as many calls as it may make, every
// call is recorded, and neither a slot of the worker nor a place under a limit is lost.
func TestPanicIsAnAttempt(t *testing.T) {
	t.Parallel()
	const bad = 0 // the run that panics
	isBad := func(c record.Call) bool { return c.Index == bad }
	for _, tt := range []struct {
		name     string
		attempts int // max_attempts
		want     int // calls of the bad run
		change   func(cfg *Config, provider *fakeProvider)
	}{
		{"in the provider", 2, 2, func(_ *Config, p *fakeProvider) {
			p.answer = func(context.Context, int, *providers.Request) (*providers.Result, error) { panic("in the provider") }
		}},
		{"when the call has ended", 2, 2, func(cfg *Config, _ *fakeProvider) {
			cfg.Observer.Call = func(c record.Call) {
				if isBad(c) {
					panic("counter cannot decrease")
				}
			}
		}},
		{"before the call is sent", 5, record.MaxFaults, func(cfg *Config, _ *fakeProvider) {
			cfg.Observer.Spending = func(s observe.Spending) { panic("before it is sent") }
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			provider := &fakeProvider{answer: firstWins}
			b := setup(t, provider)
			cfg := b.config()
			cfg.Slots = 1
			tt.change(&cfg, provider)
			b.submit(2, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
				s.Limits = []ratelimit.Limit{{Kind: ratelimit.Concurrency, Max: 1}}
				s.Retry.MaxAttempts, s.Limit = tt.attempts, 1
			})
			defer b.start(cfg)()
			b.wait()
			runs, calls := b.outcomes()
			if got := runs[bad][0]; got.Class != providers.Lost || got.Attempts == 0 {
				t.Errorf("the run ended as %q after %d attempts: %s; want lost", got.Class, got.Attempts, got.Error)
			}
			if n, _ := provider.count(); n > tt.want {
				t.Errorf("the provider saw %d calls, want at most %d", n, tt.want)
			}
			if len(calls) != tt.want {
				t.Errorf("%d calls are recorded, want %d", len(calls), tt.want)
			}
			testrun.EventuallyGot(t, "no lease is left", func() (string, bool) {
				left := b.store.Client().ZCount(t.Context(), "{ef}:s:fleet/concurrency", fmt.Sprint(time.Now().UnixMicro()), "+inf")
				return left.String(), left.Err() == nil && left.Val() == 0
			})
		})
	}
}

// A run whose outcome Redis does not take, for a reason that waiting does not mend, is
// paid for once: its task is archived.
func TestOutcomeThatCannotBeWrittenIsPaidOnce(t *testing.T) {
	t.Parallel()
	provider := &fakeProvider{answer: firstWins}
	b := setup(t, provider)
	b.submit(2, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) { s.Limit = 1 })
	client := b.store.Client()
	if err := client.Set(t.Context(), b.store.Keys().Results(b.id), "not a stream", 0).Err(); err != nil {
		t.Fatal(err)
	}
	defer b.start(b.config())()
	testrun.Eventually(t, "the task is archived", func() bool { return client.ZCard(t.Context(), "asynq:{p}:archived").Val() == 1 })
	if n, _ := provider.count(); n != 1 {
		t.Errorf("%d calls for a run whose outcome cannot be written, want 1", n)
	}
}

// An answer that cannot be used is asked for again as often as a run allows, also
// where another worker has the run each time.
func TestRepairsAreBoundedOverWorkers(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	failed := make(chan struct{}, 100)
	provider := &fakeProvider{answer: func(_ context.Context, n int, _ *providers.Request) (*providers.Result, error) {
		if n%2 == 0 { // then its worker is replaced
			failed <- struct{}{}
			return nil, &providers.Error{Class: providers.Overloaded, Status: 503, Message: "busy", RetryAfter: 400 * time.Millisecond}
		}
		return &providers.Result{Text: "I like both.", Finish: providers.FinishStop}, nil
	}}
	b := setup(t, provider)
	b.submit(2, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) { s.Limit, s.Retry.MaxAttempts = 1, 6 })
	for range ask.MaxRepairs {
		stop := b.start(b.config())
		<-failed
		stop()
	}
	defer b.start(b.config())()
	b.wait()
	runs, calls := b.outcomes()
	if got := runs[0][0]; got.Class != providers.Malformed {
		t.Errorf("the run ended as %q: %s; want malformed", got.Class, got.Error)
	}
	if n, _ := provider.count(); n != 2*ask.MaxRepairs+1 || len(calls) != n {
		t.Errorf("the provider saw %d calls and %d are recorded, want %d", n, len(calls), 2*ask.MaxRepairs+1)
	}
}

// Calls that end with their worker are no attempts, and are bounded all the same.
func TestCallsCutOffAreBounded(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 100)
	provider := &fakeProvider{answer: func(ctx context.Context, _ int, _ *providers.Request) (*providers.Result, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return nil, &providers.Error{Class: providers.Cancelled, Message: "given up", Err: ctx.Err(), MayBeBilled: true}
	}}
	b := setup(t, provider)
	b.submit(2, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) { s.Limit, s.Retry.MaxAttempts = 1, 1 })
	b.progress(store.Progress{Cut: record.MaxCut - 1})
	cfg := b.config()
	cfg.Grace = time.Millisecond
	stop := b.start(cfg)
	<-begun
	stop()
	defer b.start(b.config())()
	b.wait()
	runs, calls := b.outcomes()
	if got := runs[0][0]; got.Class != providers.Lost || len(calls) != 1 {
		t.Errorf("the run ended as %q (%s) with %d calls recorded, want lost with 1", got.Class, got.Error, len(calls))
	}
}

// What is stored of a run bounds the calls that the next worker makes for it.
func TestWhatIsStoredBoundsTheCalls(t *testing.T) {
	t.Parallel()
	failing := func(status int, class providers.Class) func(context.Context, int, *providers.Request) (*providers.Result, error) {
		return func(context.Context, int, *providers.Request) (*providers.Result, error) {
			return nil, &providers.Error{Class: class, Status: status, Message: "no"}
		}
	}
	useless := func(context.Context, int, *providers.Request) (*providers.Result, error) {
		return &providers.Result{Text: "I like both.", Finish: providers.FinishStop}, nil
	}
	lacking := func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		return firstWins(ctx, n, request) // without a search
	}
	for _, tt := range []struct {
		name   string
		stored store.Progress
		answer func(context.Context, int, *providers.Request) (*providers.Result, error)
		calls  int // made by the worker
		class  providers.Class
	}{
		{"nothing", store.Progress{}, failing(500, providers.Transient), 3, providers.Transient},
		{"failed calls", store.Progress{Attempts: 2}, failing(500, providers.Transient), 1, providers.Transient},
		{"all attempts", store.Progress{Attempts: 3}, failing(500, providers.Transient), 0, providers.Lost},
		{"answers are no failures", store.Progress{Attempts: 2, Answers: 1}, failing(500, providers.Transient), 2, providers.Transient},
		{"useless answers", store.Progress{Attempts: 2, Answers: 2, Unusable: ask.MaxRepairs}, useless, 1, providers.Malformed},
		{"all repairs", store.Progress{Attempts: 3, Answers: 3, Unusable: ask.MaxRepairs + 1}, useless, 0, providers.Malformed},
		{"refusals", store.Progress{Cooled: call.MaxCooled, Attempts: 2}, failing(429, providers.RateLimited), 1, providers.RateLimited},
		{"answers without a search", store.Progress{Attempts: 2, Lacked: providers.Ungrounded}, lacking, 1, providers.Ungrounded},
		{"calls cut off", store.Progress{Cut: record.MaxCut}, firstWins, 0, providers.Lost},
		{"faults", store.Progress{Faults: record.MaxFaults}, firstWins, 0, providers.Lost},
		{"refusals with a fallback", store.Progress{Cooled: 5, Attempts: 2, Fallen: record.Fallen{Refused: 2, Tally: record.Tally{RateLimitWaits: 2}}},
			failing(429, providers.RateLimited), 1, providers.RateLimited},
		{"the last model in its place", store.Progress{Attempts: 5, Fallen: record.Fallen{Asked: 1, Spent: 3, Tally: record.Tally{Fell: []record.Fell{{}}}}},
			failing(500, providers.Transient), 1, providers.Transient},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			provider := &fakeProvider{answer: tt.answer}
			b := setup(t, provider)
			b.submit(2, func(e *eval.Evaluation, _ map[string]string, s *record.Settings) {
				s.Limit = 1
				if tt.class == providers.Ungrounded {
					e.Grounding = eval.Required
				}
				if strings.Contains(tt.name, "fallback") || strings.Contains(tt.name, "in its place") {
					s.Fallback = &record.Fallback{Models: []string{"p:other"}, AutoWait: true, MaxRetries: 2, Base: 1, After429: time.Millisecond, AfterRetries: true}
				}
				if strings.Contains(tt.name, "fallback") {
					s.Fallback.Models = []string{"unknown:other"} // which no worker can call
				}
			})
			b.progress(tt.stored)
			defer b.start(b.config())()
			b.wait()
			runs, _ := b.outcomes()
			if got := runs[0][0]; got.Class != tt.class {
				t.Errorf("the run ended as %q: %s; want %q", got.Class, got.Error, tt.class)
			}
			if n, _ := provider.count(); n != tt.calls {
				t.Errorf("the provider saw %d calls, want %d", n, tt.calls)
			}
		})
	}
}

// progress stores what workers of before have left of run 0.
func (b *bench) progress(p store.Progress) {
	b.t.Helper()
	task := record.Task{Evaluation: b.id, Kind: eval.KindPairwise, Model: "p:m"}
	if _, err := b.store.SaveProgress(b.t.Context(), task, p, nil); err != nil {
		b.t.Fatal(err)
	}
}
