package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// TestNothingIsReadForNothing: an answer whose reported input is 0 gives nothing
// back of what was reserved for its input, and its cost is not known.
func TestNothingIsReadForNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		result, err := firstWins(ctx, n, request)
		result.Usage.Input = 0
		return result, err
	}})
	input := ratelimit.Limit{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.InputTokens, Max: 100_000, Period: time.Minute, Window: ratelimit.Window{Shape: ratelimit.Sliding, Length: time.Minute}}
	output := input
	output.Kind = ratelimit.OutputTokens
	b.submit(2, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Limits = []ratelimit.Limit{input, output}
		s.Prices = map[string]providers.Price{"p:m": {Rates: providers.Rates{Input: 1, Output: 2}}}
	})
	// The evaluation's own pin ends with it.
	limits := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{})
	if err := limits.Register(t.Context(), "test", b.submission.Settings.Limits); err != nil {
		t.Fatal(err)
	}
	defer b.start(b.config())()
	b.wait()
	_, calls := b.outcomes()
	usage, err := limits.Usage(t.Context())
	if err != nil || len(calls) != 2 || len(usage) != 2 {
		t.Fatalf("%d calls, %d limits, %v; want 2 of each", len(calls), len(usage), err)
	}
	for _, u := range usage {
		switch {
		case u.Limit.Kind == ratelimit.InputTokens && u.InUse < 200:
			t.Errorf("%d tokens of input are counted, want those reserved for two prompts", u.InUse)
		case u.Limit.Kind == ratelimit.OutputTokens && u.InUse != 4:
			t.Errorf("%d tokens of output are counted, want the 4 reported", u.InUse)
		}
	}
	for _, call := range calls {
		if call.Usage.CostUSD != nil || call.MostUSD == nil || *call.MostUSD <= 0 {
			t.Errorf("a call cost %v, at most %v; want an unknown cost with a bound", call.Usage.CostUSD, call.MostUSD)
		}
	}
}

// TestCostFollowsTheTier: a call is charged by the tier that its answer names. In
// one without a known price its cost is unknown and bounded by what was reserved.
func TestCostFollowsTheTier(t *testing.T) {
	t.Parallel()
	tiers := []string{"", "flex", "priority"}
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		result, err := firstWins(ctx, n, request)
		result.Usage = providers.Usage{Reported: true, Input: 1000, Output: 100, Tier: tiers[n%len(tiers)]}
		return result, err
	}})
	b.submit(3, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Prices = map[string]providers.Price{"p:m": {Rates: providers.Rates{Input: 1, Output: 2}, Tiers: map[string]float64{"flex": 0.5}}}
	})
	defer b.start(b.config())()
	b.wait()
	_, calls := b.outcomes()
	costs := map[float64]int{}
	for _, call := range calls {
		switch {
		case call.Usage.CostUSD != nil:
			costs[*call.Usage.CostUSD]++
		case call.MostUSD != nil && *call.MostUSD > 0:
			costs[-1]++
		}
	}
	if want := map[float64]int{0.0012: 2, 0.0006: 2, -1: 2}; !maps.Equal(costs, want) {
		t.Errorf("costs of %d calls: got %v, want %v (-1: unknown)", len(calls), costs, want)
	}
}

// TestAnOldBudgetStopsNothing: a call that was refused under a budget that no longer
// holds, when a higher one has been submitted, does not stop the evaluation again.
func TestAnOldBudgetStopsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins})
	budget := func(nano int64) []ratelimit.Limit { return []ratelimit.Limit{ratelimit.Budget(string(b.id), nano)} }
	b.submit(2, func(e *eval.Evaluation, _ map[string]string, s *record.Settings) {
		e.Normalize()
		b.id = e.ID()
		s.Limits = budget(1000)
	})
	cfg := b.config().withDefaults()
	life := newLife(cfg)
	defer life.ledger.Close()
	s := newSession(cfg, "w1", life)
	old, err := s.worker.Evaluations.Load(t.Context(), b.id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.enqueuer().Pause(t.Context(), b.id); err != nil {
		t.Fatal(err)
	}
	b.submission.Settings.Limits = budget(2000)
	if _, err := b.enqueuer().Submit(t.Context(), b.submission); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		what string
		want record.Status
	}{{"under the old budget", record.StatusActive}, {"under the one that holds", record.StatusPaused}} {
		refused := make(chan error)
		const runs = 20 // that meet it at once
		for range runs {
			r := run.New(t.Context(), s.worker, "q")
			defer r.Take(record.Task{Evaluation: b.id, Kind: eval.KindPairwise})()
			r.Evaluation = old
			go func() { refused <- s.handler.Caller.Of(r, nil).OutOfBudget(t.Context()) }()
		}
		for range runs {
			if err := <-refused; !errors.As(err, new(*run.PutBack)) {
				t.Fatalf("refused %s: %v, want that the run goes back", step.what, err)
			}
		}
		if now, err := b.store.Evaluation(t.Context(), b.id); err != nil || now.Status != step.want {
			t.Errorf("refused %s, the evaluation is %s, %v; want %s", step.what, now.Status, err, step.want)
		}
		if old, err = s.worker.Evaluations.Load(t.Context(), b.id); err != nil {
			t.Fatal(err)
		}
	}
	if closures, err := s.worker.Admin.Closures(t.Context(), string(b.id)); err != nil || len(closures) != 1 {
		t.Errorf("the limits are closed %d times, %v; want once", len(closures), err)
	}
}

// TestWhatAFailedCallUsedIsKept: of a call whose first part was answered, what that
// used is recorded and counted, where it is more than was reserved.
func TestWhatAFailedCallUsedIsKept(t *testing.T) {
	t.Parallel()
	const used = 50_000
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if n > 1 {
			return firstWins(ctx, n, request)
		}
		return nil, &providers.Error{Class: providers.Overloaded, Status: 529, Message: "x", MayBeBilled: true,
			Used: providers.Usage{Reported: true, Input: used, Output: 7}}
	}})
	b.submit(2, func(e *eval.Evaluation, _ map[string]string, s *record.Settings) {
		e.Pairwise.Order = eval.OrderAsListed
		s.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.InputTokens, Max: 1_000_000, Period: time.Minute,
			Window: ratelimit.Window{Shape: ratelimit.Sliding, Length: time.Minute}}}
		s.Prices = map[string]providers.Price{"p:m": {Rates: providers.Rates{Input: 1, Output: 2}}}
	})
	// The evaluation's own pin ends with it.
	limits := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{})
	if err := limits.Register(t.Context(), "test", b.submission.Settings.Limits); err != nil {
		t.Fatal(err)
	}
	defer b.start(b.config())()
	b.wait()
	_, calls := b.outcomes()
	usage, err := limits.Usage(t.Context())
	if err != nil || len(calls) != 2 || len(usage) != 1 {
		t.Fatalf("%d calls, %d limits, %v; want 2 and 1", len(calls), len(usage), err)
	}
	if usage[0].InUse != used+10 {
		t.Errorf("%d tokens of input are counted, want those of both calls, %d", usage[0].InUse, used+10)
	}
	if c := calls[0]; c.Class != providers.Overloaded || c.Usage.Input != used || c.Usage.Output != 7 || c.MostUSD == nil || *c.MostUSD < used*1e-6 {
		t.Errorf("the failed call: %+v", c)
	}
}

// A worker is cut off while a call is in flight, for longer than its leases. Meanwhile
// Redis loses the limiter's keys, and is told what the evaluation had spent before: what
// the aborted call may have cost is spent all the same.
func TestBudgetCountsWhatACutOffWorkerCalled(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	var away atomic.Bool
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if n == 1 {
			away.Store(true)
			<-ctx.Done()
			return nil, &providers.Error{Class: providers.Cancelled, Message: "given up", Err: context.Cause(ctx), MayBeBilled: true}
		}
		return firstWins(ctx, n, request)
	}})
	var limits []ratelimit.Limit
	b.submit(2, func(e *eval.Evaluation, _ map[string]string, s *record.Settings) {
		e.Normalize()
		limits = []ratelimit.Limit{ratelimit.Budget(string(e.ID()), ratelimit.Dollar), {Kind: ratelimit.Concurrency, Max: 1}}
		s.Limits = limits
		s.Prices = map[string]providers.Price{"p:m": {Rates: providers.Rates{Input: 1, Output: 2}}}
	})
	limiter := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{})
	tell := func() {
		t.Helper()
		// Under a name of its own, because an evaluation's limits end with it.
		if err := limiter.Register(t.Context(), "test", limits); err != nil {
			t.Fatal(err)
		}
		if err := limiter.TellSpent(t.Context(), string(b.id), "", 0); err != nil {
			t.Fatal(err)
		}
	}
	tell()
	cfg := b.brief()
	cfg.Client, cfg.Probe = b.server2(&away), &Probe{}
	defer b.start(cfg)()
	testrun.Eventually(t, "the worker is fenced", func() bool { return cfg.Probe.Vitals().Sessions >= 2 })
	client := b.store.Client()
	if err := client.Del(t.Context(), client.Keys(t.Context(), "{ef}:*").Val()...).Err(); err != nil {
		t.Fatal(err)
	}
	tell()
	away.Store(false)
	b.wait()
	var want int64
	_, calls := b.outcomes()
	told := map[string]bool{} // what was recorded before an outage is recorded again
	for _, call := range calls {
		if told[call.ID] {
			continue
		}
		told[call.ID] = true
		cost := call.Usage.CostUSD
		if cost == nil {
			cost = call.MostUSD
		}
		want += int64(math.Round(*cost * ratelimit.Dollar))
	}
	testrun.EventuallyGot(t, fmt.Sprintf("%d calls have cost %s", len(told), ratelimit.Dollars(want)), func() (string, bool) {
		usage, err := limiter.Usage(t.Context())
		return fmt.Sprintf("%+v, %v", usage, err), err == nil && slices.ContainsFunc(usage, func(u ratelimit.Usage) bool {
			return u.Limit.Kind == ratelimit.Cost && u.Spent == want
		})
	})
}
