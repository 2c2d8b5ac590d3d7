package worker

import (
	"math"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// TestBatchesOfThreeVendors: by the provider's own count, each run is asked in one batch, no batch is refused, a bound on
// enqueued tokens is never passed, and half of the price is charged. Workers go meanwhile.
func TestBatchesOfThreeVendors(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	targets := []string{"openai:" + gpt, "anthropic:" + claude, "google:" + gemini}
	lasts := simulator.Behaviour{BatchTime: simulator.Span{Min: 2 * time.Second, Max: 4 * time.Second}}
	s := simulate(t, models(map[string]simulator.Behaviour{gpt: lasts, claude: lasts, gemini: lasts}))
	const enqueued = 120_000
	price := providers.Price{Rates: providers.Rates{Input: 1, Output: 4}, Tiers: map[string]float64{providers.TierBatch: 0.5}}
	s.submit(14, func(e *eval.Evaluation, _ map[string]string, settings *record.Settings) {
		e.Judges = nil
		settings.Prices = map[string]providers.Price{}
		for _, target := range targets {
			provider, model, _ := eval.ParseTarget(target)
			e.Judges = append(e.Judges, eval.Judge{Name: target, Provider: provider, Model: model})
			settings.Prices[target] = price
		}
		settings.Batch = &record.Batch{Models: targets, Runs: 100, Deadline: time.Hour}
		settings.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "openai"}, Kind: ratelimit.EnqueuedTokens, Max: enqueued}}
	})

	for _, gone := range []func(simulator.BatchCounts) bool{ // when a worker goes
		func(c simulator.BatchCounts) bool { return c.Submitted > 0 },
		func(c simulator.BatchCounts) bool { return c.Ended > 0 },
	} {
		stop := s.start(s.cfg)
		testrun.Eventually(t, "batches are under way", func() bool { return gone(s.server.Stats().All.Batches) })
		stop()
	}
	defer s.start(s.cfg)()
	s.wait()
	s.wantEachOnce()
	s.wantNothingCounted()

	all, byModel := s.server.Stats().All, s.server.Stats().Models
	if all.Batches.Requests != int64(s.runs) || all.Batches.Refused != 0 || all.Arrived != 0 {
		t.Fatalf("the provider counts %+v, and %d other calls; want %d requests, none refused, and no other call", all.Batches, all.Arrived, s.runs)
	}
	if most := byModel[gpt].Batches.MostEnqueued; most > enqueued {
		t.Errorf("%d tokens were enqueued at once, want at most %d", most, enqueued)
	}
	half := (float64(all.InputTokens) + 4*float64(all.OutputTokens)) / 2e6
	cost := 0.0
	_, calls := s.outcomes()
	for _, call := range calls {
		cost += *call.Usage.CostUSD
	}
	if math.Abs(all.ChargedUSD-half) > 1e-9 || math.Abs(cost-half) > 1e-5 {
		t.Errorf("the provider charged $%.6f, and calls record $%.6f; want half of the price, $%.6f", all.ChargedUSD, cost, half)
	}
}
