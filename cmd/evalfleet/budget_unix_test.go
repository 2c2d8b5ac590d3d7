//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/internal/view"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// What a call of the tests of budgets costs, and what is reserved for it: answers
// of 100 tokens that may have 150, at 10 dollars a million.
const (
	callCosts = ratelimit.Dollar / 1000
	callMost  = 3 * callCosts / 2
)

// budgeted writes an evaluation with a budget of so many calls.
func (f *testFleet) budgeted(calls int) {
	f.t.Helper()
	f.write("evaluation.yaml", fmt.Sprintf(`name: budgeted
documents: ["docs/*.md"]
judges: [{model: "simulator:careful", overrides: {max_completion_tokens: 150}}]
pairwise: {pairs: all, order: both}
concurrency: {max_concurrency: 16}
budget: {usd: %v}
`, view.USD(int64(calls)*callCosts)))
}

// wantSpent wants that the provider has charged no more than a budget of so many
// calls, and no less than leaves no room for another.
func (f *testFleet) wantSpent(calls int) {
	f.t.Helper()
	f.wantSpentWithin(calls, 0)
}

// wantSpentWithin is wantSpent of runs that lost so many calls.
func (f *testFleet) wantSpentWithin(calls, lost int) {
	f.t.Helper()
	charged := f.stats().All.OutputTokens * 10 * 1000 // nano-USD
	budget := int64(calls) * callCosts
	if charged > budget || charged <= budget-int64(1+lost)*callMost {
		f.t.Errorf("the simulator charged %s, want at most %s and more than %s",
			ratelimit.Dollars(charged), ratelimit.Dollars(budget), ratelimit.Dollars(budget-int64(1+lost)*callMost))
	}
}

// newBudgeted is a fleet whose calls have a price. settings are calm or lapses.
func newBudgeted(t *testing.T, latency, settings string) *testFleet {
	t.Helper()
	f := newFleetWith(t, "--answer-tokens", "100", "--latency", latency)
	f.priced(f.provider, settings)
	f.documents(20)
	return f
}

// priced writes the fleet's file, by which calls go to a URL. settings are calm or lapses.
func (f *testFleet) priced(url, settings string) {
	f.t.Helper()
	f.configure(url, settings)
	f.add("fleet.yaml", "prices: {\"simulator:care*\": {input: 0, output: 10}}\n")
}

// wantStopped wants that a command ended with its budget spent, and said so once.
func wantStopped(t *testing.T, p *program) {
	t.Helper()
	if code := p.wait(); code != int(exitRunsFailed) {
		t.Fatalf("it ended with %d, want %d", code, exitRunsFailed)
	}
	if n := strings.Count(p.stderr.String(), "leaves no room for another call: $"); n != 1 {
		t.Errorf("it was said %d times what was spent, want once", n)
	}
}

// TestBudgetIsKept: a budget of 37 % of 300 equal runs stops two workers before it is exceeded, and a higher one lets
// them continue, by the simulator's count.
func TestBudgetIsKept(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newBudgeted(t, "20ms", calm)
	f.startWorkers(2)
	submit := func() *program {
		return launch(t, f.dir, "enqueue", "evaluation.yaml", "--limit", "300", "--wait",
			"--redis", f.redis.URL(), "--config", "fleet.yaml", "--out-dir", "out")
	}
	for _, calls := range []int{111, 150} {
		f.budgeted(calls)
		wantStopped(t, submit())
		f.wantSpent(calls)
	}
	status := launch(t, f.dir, "status", "--redis", f.redis.URL(), "--config", "fleet.yaml")
	status.wait()
	if got := status.stdout.String(); !strings.Contains(got, "budget $0.15, spent $0.15") && !strings.Contains(got, "budget $0.15, spent $0.149") ||
		!strings.Contains(got, "no room for another call") {
		t.Errorf("status says\n%s", got)
	}
	f.budgeted(600)
	if code := submit().wait(); code != 0 {
		t.Errorf("with a budget that is enough it ended with %d, want 0", code)
	}
	if got := f.stats().All; got.Answered != 300 || got.Retaken > 0 {
		t.Errorf("%d answered, %d asked twice; want 300 and none", got.Answered, got.Retaken)
	}
}

// TestBudgetOutlivesTheRun: what a run has spent counts for the next one in its
// folder, although each brings a Redis of its own.
func TestBudgetOutlivesTheRun(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newBudgeted(t, "10ms", calm)
	f.budgeted(200)
	calls := newTurnstile(t, f.provider)
	f.priced(calls.URL, calm)
	run := func() *program {
		return launch(t, f.dir, "run", "evaluation.yaml", "--limit", "380", "--config", "fleet.yaml", "--out-dir", "out")
	}
	p := run()
	calls.allow(40)
	f.untilHeld(calls, 16)
	p.signal(syscall.SIGINT)
	testrun.Eventually(t, "the run finishes its calls and begins no other", func() bool { return strings.Contains(p.stderr.String(), "stopping: ") })
	calls.allow(16)
	if code := p.wait(); code != int(exitInterrupted) {
		t.Fatalf("interrupted run ended with %d, want %d", code, exitInterrupted)
	}
	p = run()
	calls.allow(40)
	f.untilHeld(calls, 16)
	p.signal(syscall.SIGKILL) // what is in flight is charged, and recorded nowhere
	p.wait()
	calls.open()
	wantStopped(t, run())
	// Calls cut off in flight are not answered, and count for what they might cost.
	f.wantSpentWithin(200, 16)
	f.budgeted(240)
	wantStopped(t, run())
	f.wantSpentWithin(240, 16)
}

// TestBudgetOutlivesTheLimiter: Redis loses the limiter's slot and with it what was
// spent, while results of many calls wait there and no results store has them. No call
// begins until a command has collected them, and then none beyond the budget. A submission
// from a place that cannot collect them opens nothing.
func TestBudgetOutlivesTheLimiter(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	for _, tell := range []string{"collect", "enqueue"} {
		t.Run("told by "+tell, func(t *testing.T) {
			t.Parallel()
			f := newBudgeted(t, "300ms", lapses)
			const budget = 200
			f.budgeted(budget)
			command := func(args ...string) *program {
				p := f.program(append(args, "--config", "fleet.yaml")...)
				p.wait()
				return p
			}
			enqueue := []string{"enqueue", "evaluation.yaml", "--limit", "380"}
			id := strings.TrimSpace(command(append(enqueue, "--out-dir", "out")...).stdout.String())
			if code := f.program("collect", id, "--out-dir", "out").wait(); code != 0 { // from now on that is its results store
				t.Fatalf("collect ended with %d", code)
			}
			f.startWorkers(2)
			f.until("calls are answered", func(s seen) bool { return s.All.Answered >= 20 })
			client := f.redis.Client()
			if err := client.Del(t.Context(), client.Keys(t.Context(), "{ef}:*").Val()...).Err(); err != nil {
				t.Fatal(err)
			}
			limiter := ratelimit.NewAdmin(client, ratelimit.Config{})
			testrun.EventuallyGot(t, "workers have registered the budget again, and it is closed", func() (string, bool) {
				usage, err := limiter.Usage(t.Context())
				grace, _ := limiter.Grace(t.Context())
				closed := slices.ContainsFunc(usage, func(u ratelimit.Usage) bool { return u.Limit.Kind == ratelimit.Cost && u.Closed })
				return fmt.Sprint(usage, grace, err), closed && grace <= 0
			})
			f.until("no call is in flight", func(s seen) bool { return s.All.InFlight == 0 })
			before := f.stats().All.Arrived
			switch tell {
			case "collect":
				if code := f.program("collect", id, "--out-dir", "out").wait(); code != 0 {
					t.Fatalf("collect ended with %d", code)
				}
			case "enqueue":
				if p := command(append(enqueue, "--out-dir", "elsewhere")...); p.cmd.ProcessState.ExitCode() != int(exitUsage) {
					t.Errorf("a submission without the results ended with %d: %s", p.cmd.ProcessState.ExitCode(), p.stderr.String())
				}
				if now := f.stats().All.Arrived; now != before {
					t.Errorf("%d calls began before anybody told what was spent", now-before)
				}
			}
			p := command(append(enqueue, "--wait", "--out-dir", "out")...)
			if code := p.cmd.ProcessState.ExitCode(); code != int(exitRunsFailed) {
				t.Fatalf("the submission ended with %d, want %d: %s", code, exitRunsFailed, p.stderr.String())
			}
			// What was in flight when the slot was lost may count twice.
			f.wantSpentWithin(budget, 2*16)
		})
	}
}

// TestBudgetAfterAnOlderCopy: Redis comes back with a copy of its memory that lacks most calls.
// Who follows the evaluation tells the budget what its results store has, and no call is beyond it.
func TestBudgetAfterAnOlderCopy(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newBudgeted(t, "100ms", lapses)
	const budget = 200
	f.budgeted(budget)
	f.startWorkers(2)
	p := f.program("enqueue", "evaluation.yaml", "--limit", "380", "--wait", "--out-dir", "out", "--config", "fleet.yaml")
	f.until("calls are answered", func(s seen) bool { return s.All.Answered >= 10 })
	if err := f.redis.Client().Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	f.until("many more are", func(s seen) bool { return s.All.Answered >= 120 })
	f.redis.Kill()
	f.redis.Start()
	wantStopped(t, p)
	// Those in flight when Redis went are settled at what they may cost.
	f.wantSpentWithin(budget, 2*16)
}

// TestBudgetAfterLosingWhatNoStoreHas: Redis restarts at once from a copy that lacks the last
// calls, while the process that collects them is frozen: only the workers know what was spent. No
// call is beyond the budget, and the results store has every call that was paid for.
func TestBudgetAfterLosingWhatNoStoreHas(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newBudgeted(t, "100ms", lapses)
	const budget = 200
	f.budgeted(budget)
	calls := newTurnstile(t, f.provider)
	f.priced(calls.URL, lapses)
	calls.allow(20)
	f.startWorkers(2)

	p := f.program("enqueue", "evaluation.yaml", "--limit", "380", "--wait", "--out-dir", "out", "--config", "fleet.yaml")
	f.until("calls are answered", func(s seen) bool { return s.All.Answered >= 20 })
	older := f.redis.Copy()
	p.signal(syscall.SIGSTOP)
	calls.allow(80)
	f.until("many more are", func(s seen) bool { return s.All.Answered >= 100 })

	f.redis.Kill()
	if !f.redis.Revert(older) {
		t.Fatal("the copy cannot be used")
	}
	f.redis.Start()
	calls.open()
	p.signal(syscall.SIGCONT)

	wantStopped(t, p)
	// Those in flight when Redis went are settled at what they may cost.
	f.wantSpentWithin(budget, 2*16)
	if got := f.stats().All; got.Retaken > 2*16 {
		t.Errorf("%d calls were made again, want at most those in flight at the loss", got.Retaken)
	}
}
