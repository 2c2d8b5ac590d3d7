package worker

import (
	"context"
	"math"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

// A provider reports numbers of tokens and costs that no call has. The runs succeed; the
// calls are recorded without a usage, with what they may have cost at most.
func TestAbsurdUsageIsNotBelieved(t *testing.T) {
	t.Parallel()
	usd := func(amount float64) *float64 { return &amount }
	absurd := []providers.Usage{
		{Reported: true, Input: -1 << 62, Output: -5},
		{Reported: true, Input: math.MaxInt64, Output: math.MaxInt64},
		{Reported: true, Input: 10, Output: 2, CostUSD: usd(-1e300)},
		{Reported: true, Input: 10, Output: 2, CostUSD: usd(math.Inf(1))},
		{Reported: true, Input: 10, Output: 2, CostUSD: usd(1e300)},
		{Reported: true, Input: 10, Cached: -1 << 60},
	}
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		result, err := firstWins(ctx, n, request)
		result.Usage, result.Grounding.Searches = absurd[n%len(absurd)], math.MaxInt
		return result, err
	}})
	b.submit(3, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Prices = map[string]providers.Price{"p:m": {Rates: providers.Rates{Input: 1, Output: 2}, Search: 10}}
	})
	defer b.start(b.config())()
	if standing := b.wait(); standing.Total(eval.StateSucceeded) != b.runs {
		t.Errorf("%d of %d runs succeeded", standing.Total(eval.StateSucceeded), b.runs)
	}
	_, calls := b.outcomes()
	if len(calls) != b.runs {
		t.Errorf("%d calls for %d runs", len(calls), b.runs)
	}
	for _, call := range calls {
		if call.Usage.Reported || call.Usage.CostUSD != nil || call.MostUSD == nil || *call.MostUSD <= 0 || *call.MostUSD > 1 {
			t.Errorf("a call is recorded with usage %+v and a bound of %v USD", call.Usage, call.MostUSD)
		}
	}
}
