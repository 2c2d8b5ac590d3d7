package worker

import (
	"context"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
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
	defer b.start(b.config())()
	b.wait()
	_, calls := b.outcomes()
	usage, err := ratelimit.New(b.store.Client(), ratelimit.Config{}).Usage(t.Context())
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
