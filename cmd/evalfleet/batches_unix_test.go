//go:build unix

package main

import (
	"fmt"
	"math"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// TestBatchesOutliveKills: workers, the controller and Redis are killed while batches of three vendors are under way, then
// Redis is flushed and the evaluation is submitted again. By the provider's own count each run was asked in one batch, no
// bound on enqueued tokens was passed, and the recorded cost is half of the price.
func TestBatchesOutliveKills(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const documents, enqueued = 12, 60_000
	const runs = documents * (documents - 1) * 3
	f := &testFleet{t: t, dir: t.TempDir(), redis: redistest.NewTCP(t, "--appendonly", "yes", "--appendfsync", "always")}
	f.simulate("--settings", f.write("simulator.json", fmt.Sprintf(`{"batch_time": "2s..5s", "answer_tokens": "100",
  "models": {"careful": {"enqueued_tokens": %[1]d}, "average": {"enqueued_tokens": %[1]d}, "careless": {"enqueued_tokens": %[1]d}}}`, enqueued)))
	f.documents(documents)
	f.write("fleet.yaml", fmt.Sprintf(`providers:
  simulator: {base_url: "%[1]s/v1", batch: true}
  messages: {base_url: "%[1]s", dialect: messages, batch: true}
  generate: {base_url: "%[1]s", dialect: generate, batch: true}
prices:
  "simulator:careful": {input: 1, output: 4, tiers: {batch: 0.5}}
  "messages:average": {input: 1, output: 4, tiers: {batch: 0.5}}
  "generate:careless": {input: 1, output: 4, tiers: {batch: 0.5}}
concurrency:
  lease: 3s
  per_provider: {simulator: {enqueued_tokens: %[2]d}, messages: {enqueued_tokens: %[2]d}, generate: {enqueued_tokens: %[2]d}}
`, f.provider, enqueued))
	f.write("evaluation.yaml", `name: batches
documents: ["docs/*.md"]
judges: ["simulator:careful", "messages:average", "generate:careless"]
pairwise: {pairs: all, order: both}
batch: {use: prefer, runs: 20}
`)
	store := filepath.Join(f.dir, "results.db")
	enqueue := []string{"enqueue", "evaluation.yaml", "--config", "fleet.yaml", "--sink", "sqlite:" + store}

	worker := func() *program { return f.program("worker", "--config", "fleet.yaml") }
	controller := func() *program { return f.program("controller", "--listen", "127.0.0.1:0") }
	workers, collector := []*program{worker(), worker()}, controller()
	f.onFleet(exitOK, enqueue...)
	asked := func(share float64) {
		t.Helper()
		f.until(fmt.Sprintf("%.0f %% of runs are in batches", 100*share), func(s seen) bool {
			return float64(s.All.Batches.Requests) >= share*runs
		})
	}
	kill := func(p *program) {
		p.signal(syscall.SIGKILL)
		<-p.ended
	}

	asked(0.1)
	kill(workers[0])
	workers[0] = worker()
	asked(0.3)
	kill(collector)
	controller()
	asked(0.4)
	f.redis.Kill()
	f.redis.Start()
	asked(0.6)
	f.redis.Client().FlushAll(t.Context())
	f.onFleet(exitOK, enqueue...)
	testrun.EventuallyGot(t, "every run is recorded", func() (string, bool) {
		rows := len(rowsOf(t, f.dir, "SELECT DISTINCT phase || '.' || index_ FROM runs"))
		return fmt.Sprint(rows), rows == runs
	})

	// A batch that was being submitted when Redis was flushed is cancelled at once, and asked again.
	got := f.stats()
	b := got.All.Batches
	if b.Requests-b.Cancelled != runs || b.Answered != runs || b.Refused > 0 || got.All.Arrived > 0 || got.All.Retaken > 0 {
		t.Errorf("the provider counts %+v, %d other calls and %d repeated prompts; want %d requests, answered once", b, got.All.Arrived, got.All.Retaken, runs)
	}
	for model, counts := range got.Models {
		if most := counts.Batches.MostEnqueued; most > enqueued {
			t.Errorf("%d tokens of %s were enqueued at once, want at most %d", most, model, enqueued)
		}
	}
	cost := 0.0
	for _, row := range rowsOf(t, f.dir, "SELECT cost_usd FROM calls WHERE cost_usd IS NOT NULL") {
		var usd float64
		if _, err := fmt.Sscan(row, &usd); err != nil {
			t.Fatalf("cost %q: %v", row, err)
		}
		cost += usd
	}
	if math.Abs(cost-got.All.ChargedUSD) > 1e-6 {
		t.Errorf("calls record $%.6f, and the provider charged $%.6f", cost, got.All.ChargedUSD)
	}
}
