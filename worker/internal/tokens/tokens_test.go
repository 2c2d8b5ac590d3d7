package tokens

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

func TestReservationIsABoundUntilEnoughWasSeen(t *testing.T) {
	t.Parallel()
	learnt := New()
	request := &providers.Request{Messages: []providers.Message{{Role: providers.User, Content: string(make([]byte, 968))}}}
	const size = 1000 // with two frames of 16
	want := func(model string, wantInput, wantOutput int64) {
		t.Helper()
		if input, output := learnt.Reserve(model, request, false); input != wantInput || output != wantOutput {
			t.Errorf("reserve(%s) = %d, %d; want %d, %d", model, input, output, wantInput, wantOutput)
		}
	}
	for i := range boundFor {
		want("a:m", size, assumedOutput)
		learnt.Settled("a:m", request, providers.Usage{Input: 250, Output: int64(10 * (i + 1))})
	}
	want("a:m", 250, 200)
	want("a:other", size, assumedOutput)
	request.MaxOutputTokens = 120
	want("a:m", 250, 120)
	want("a:other", size, 120)
	request.MaxOutputTokens = 900
	if input, output := learnt.Reserve("a:m", request, true); input != 250 || output != 900 {
		t.Errorf("reserve of what is charged = %d, %d; want 250 and the bound, 900", input, output)
	}
	// Larger calls are followed, and long forgotten ones no longer.
	learnt.Settled("a:m", request, providers.Usage{Input: 500, Output: 5000})
	request.MaxOutputTokens = 0
	want("a:m", 500, 5000)
	for range remembered {
		learnt.Settled("a:m", request, providers.Usage{Input: 300, Output: 40})
	}
	want("a:m", 300, 40)
}

func TestHighIsTheNearestRank(t *testing.T) {
	t.Parallel()
	for n := 1; n <= remembered; n++ {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(rand.IntN(n)) // some are equal
		}
		sorted := slices.Sorted(slices.Values(values))
		if got, want := high(values), sorted[int(math.Ceil(quantile*float64(n)))-1]; got != want {
			t.Fatalf("high of %v = %g, want %g", values, got, want)
		}
	}
}

func TestBoundOfASearch(t *testing.T) {
	t.Parallel()
	learnt := New()
	request := &providers.Request{Search: true, MaxOutputTokens: 7, Messages: []providers.Message{{Role: providers.User, Content: string(make([]byte, 968))}}}
	want := func(what string, wantInput int64) {
		t.Helper()
		if input, output := learnt.Bound("a:m", request); input != wantInput || output != 7 {
			t.Errorf("bound of %s = %d, %d; want %d, 7", what, input, output, wantInput)
		}
	}
	want("a search", 1000+providers.DefaultSearches*assumedFound)
	request.Extra = map[string]any{providers.MaxToolCalls: 2.0}
	want("two searches", 1000+2*assumedFound)
	learnt.Settled("a:m", request, providers.Usage{Input: 90_000, Output: 5})
	want("a search, after one that found more", 90_000)
	request.Search = false
	want("no search", 1000)
}

// A worker that starts reserves what the others have learned, not the bound.
func TestNewcomerReservesWhatOthersLearnt(t *testing.T) {
	t.Parallel()
	limiter := ratelimit.NewAdmin(redistest.New(t).Client(), ratelimit.Config{})
	request := &providers.Request{Messages: []providers.Message{{Role: providers.User, Content: string(make([]byte, 968))}}}
	old, newcomer := New(), New()
	newcomer.Meet(t.Context(), limiter, "a:other") // nothing is known of it
	if input, output := newcomer.Reserve("a:other", request, false); input != 1000 || output != assumedOutput {
		t.Errorf("of an unknown model %d, %d are reserved; want the bound", input, output)
	}
	for n := range 2 * remembered {
		old.Settled("a:m", request, providers.Usage{Input: 250, Output: 40})
		if n%50 == 49 {
			if err := old.share(t.Context(), limiter, "a:m"); err != nil {
				t.Fatal(err)
			}
		}
	}
	newcomer.Meet(t.Context(), limiter, "a:m")
	if input, output := newcomer.Reserve("a:m", request, false); input != 250 || output != 40 {
		t.Errorf("a newcomer reserves %d, %d; want 250, 40", input, output)
	}
	newcomer.Settled("a:m", request, providers.Usage{Input: 500, Output: 3000})
	newcomer.Settled("a:m", request, providers.Usage{Input: 500, Output: 3000})
	newcomer.Settled("a:m", request, providers.Usage{Input: 500, Output: 3000})
	if due := newcomer.due(); !slices.Equal(due, []string{"a:m"}) {
		t.Errorf("samples to tell of %v, want of a:m", due)
	}
	for _, of := range []*Learnt{newcomer, old} {
		if err := of.share(t.Context(), limiter, "a:m"); err != nil {
			t.Fatal(err)
		}
		if input, output := of.Reserve("a:m", request, false); input != 500 || output != 3000 {
			t.Errorf("after larger calls %d, %d are reserved; want 500, 3000", input, output)
		}
	}
}
