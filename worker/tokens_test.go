package worker

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evalfleet/evalfleet/providers"
)

func TestReservationIsABoundUntilEnoughWasSeen(t *testing.T) {
	t.Parallel()
	learnt := newTokens()
	request := &providers.Request{Messages: []providers.Message{{Role: providers.User, Content: string(make([]byte, 968))}}}
	const size = 1000 // with two frames of 16
	want := func(model string, wantInput, wantOutput int64) {
		t.Helper()
		if input, output := learnt.reserve(model, request, false); input != wantInput || output != wantOutput {
			t.Errorf("reserve(%s) = %d, %d; want %d, %d", model, input, output, wantInput, wantOutput)
		}
	}
	for i := range boundFor {
		want("a:m", size, assumedOutput)
		learnt.settled("a:m", request, providers.Usage{Input: 250, Output: int64(10 * (i + 1))})
	}
	want("a:m", 250, 200)
	want("a:other", size, assumedOutput)
	request.MaxOutputTokens = 120
	want("a:m", 250, 120)
	want("a:other", size, 120)
	request.MaxOutputTokens = 900
	if input, output := learnt.reserve("a:m", request, true); input != 250 || output != 900 {
		t.Errorf("reserve of what is charged = %d, %d; want 250 and the bound, 900", input, output)
	}
	// Larger calls are followed, and long forgotten ones no longer.
	learnt.settled("a:m", request, providers.Usage{Input: 500, Output: 5000})
	request.MaxOutputTokens = 0
	want("a:m", 500, 5000)
	for range remembered {
		learnt.settled("a:m", request, providers.Usage{Input: 300, Output: 40})
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
	learnt := newTokens()
	request := &providers.Request{Search: true, MaxOutputTokens: 7, Messages: []providers.Message{{Role: providers.User, Content: string(make([]byte, 968))}}}
	want := func(what string, wantInput int64) {
		t.Helper()
		if input, output := learnt.bound("a:m", request); input != wantInput || output != 7 {
			t.Errorf("bound of %s = %d, %d; want %d, 7", what, input, output, wantInput)
		}
	}
	want("a search", 1000+providers.DefaultSearches*assumedFound)
	request.Extra = map[string]any{providers.MaxToolCalls: 2.0}
	want("two searches", 1000+2*assumedFound)
	learnt.settled("a:m", request, providers.Usage{Input: 90_000, Output: 5})
	want("a search, after one that found more", 90_000)
	request.Search = false
	want("no search", 1000)
}
