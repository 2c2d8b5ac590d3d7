//go:build unix

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/ratelimit"
)

// What a call of the tests of budgets costs, and what is reserved for it: answers
// of 100 tokens that may have 150, at 10 dollars a million.
const (
	callCosts = ratelimit.Dollar / 1000
	callMost  = 3 * callCosts / 2
)

// budgeted writes an evaluation with a budget of so many calls.
func (f *fleet) budgeted(calls int) {
	f.t.Helper()
	f.write("evaluation.yaml", fmt.Sprintf(`name: budgeted
documents: ["docs/*.md"]
judges: [{model: "simulator:careful", overrides: {max_completion_tokens: 150}}]
pairwise: {pairs: all, order: both}
concurrency: {max_concurrency: 16}
budget: {usd: %v}
`, usd(int64(calls)*callCosts)))
}

// wantSpent wants that the provider has charged no more than a budget of so many
// calls, and no less than leaves no room for another.
func (f *fleet) wantSpent(calls int) {
	f.t.Helper()
	f.wantSpentWithin(calls, 0)
}

// wantSpentWithin is wantSpent of runs that lost so many calls.
func (f *fleet) wantSpentWithin(calls, lost int) {
	f.t.Helper()
	charged := f.stats().All.OutputTokens * 10 * 1000 // nano-USD
	budget := int64(calls) * callCosts
	if charged > budget || charged <= budget-int64(1+lost)*callMost {
		f.t.Errorf("the simulator charged %s, want at most %s and more than %s",
			ratelimit.Dollars(charged), ratelimit.Dollars(budget), ratelimit.Dollars(budget-int64(1+lost)*callMost))
	}
}

func newBudgeted(t *testing.T, latency string) *fleet {
	t.Helper()
	f := newFleetWith(t, "--answer-tokens", "100", "--latency", latency)
	f.write("fleet.yaml", fmt.Sprintf(`providers: {simulator: {base_url: %q}}
prices: {"simulator:care*": {input: 0, output: 10}}
`, f.provider+"/v1"))
	f.documents(33)
	return f
}

// wantStopped wants that a command ended with its budget spent, and said so once.
func wantStopped(t *testing.T, p *program) {
	t.Helper()
	if code := p.wait(60 * time.Second); code != int(exitRunsFailed) {
		t.Fatalf("it ended with %d, want %d", code, exitRunsFailed)
	}
	if n := strings.Count(p.stderr.String(), "leaves no room for another call: $"); n != 1 {
		t.Errorf("it was said %d times what was spent, want once", n)
	}
}

// TestBudgetIsKept: a budget of 37 % of 1,000 equal runs stops two workers short
// of it, and a higher one goes on, by the simulator's count.
func TestBudgetIsKept(t *testing.T) {
	t.Parallel()
	f := newBudgeted(t, "20ms")
	f.startWorkers(2)
	submit := func() *program {
		return launch(t, f.dir, "enqueue", "evaluation.yaml", "--limit", "1000", "--wait",
			"--redis", f.redis.URL(), "--config", "fleet.yaml", "--out-dir", "out")
	}
	for _, calls := range []int{370, 500} {
		f.budgeted(calls)
		wantStopped(t, submit())
		f.wantSpent(calls)
	}
	status := launch(t, f.dir, "status", "--redis", f.redis.URL(), "--config", "fleet.yaml")
	status.wait(20 * time.Second)
	if got := status.stdout.String(); !strings.Contains(got, "budget $0.500000, spent $0.5") && !strings.Contains(got, "budget $0.500000, spent $0.499") ||
		!strings.Contains(got, "no room for another call") {
		t.Errorf("status says\n%s", got)
	}
	f.budgeted(2000)
	if code := submit().wait(60 * time.Second); code != 0 {
		t.Errorf("with a budget that is enough it ended with %d, want 0", code)
	}
	if got := f.stats().All; got.Answered != 1000 || got.Retaken > 0 {
		t.Errorf("%d answered, %d asked twice; want 1000 and none", got.Answered, got.Retaken)
	}
}

// TestBudgetOutlivesTheRun: what a run has spent counts for the next one in its
// folder, although each brings a Redis of its own.
func TestBudgetOutlivesTheRun(t *testing.T) {
	t.Parallel()
	f := newBudgeted(t, "50ms")
	f.budgeted(300)
	run := func() *program {
		return launch(t, f.dir, "run", "evaluation.yaml", "--limit", "1000", "--config", "fleet.yaml", "--out-dir", "out")
	}
	p := run()
	f.until("some calls are answered", 20*time.Second, func(s seen) bool { return s.All.Answered >= 100 })
	p.signal(syscall.SIGINT)
	if code := p.wait(20 * time.Second); code != int(exitInterrupted) {
		t.Fatalf("interrupted run ended with %d, want %d", code, exitInterrupted)
	}
	p = run()
	f.until("more are answered", 20*time.Second, func(s seen) bool { return s.All.Answered >= 200 })
	p.signal(syscall.SIGKILL) // what is in flight is charged, and recorded nowhere
	p.wait(20 * time.Second)
	wantStopped(t, run())
	// Calls cut off in flight are not answered, and count for what they might cost.
	f.wantSpentWithin(300, 16)
	f.budgeted(350)
	wantStopped(t, run())
	f.wantSpentWithin(350, 16)
}
