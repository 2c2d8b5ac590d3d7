package providers

import (
	"testing"
)

func TestPrice(t *testing.T) {
	t.Parallel()
	cached := 0.025
	mini := Price{Rates: Rates{Input: 0.25, CachedInput: &cached, Output: 2}}
	kept, long := mini, mini
	dear, half := 0.5, 0.05
	kept.CacheWrite = &dear
	long.Long = &LongRates{Above: 1000, Rates: Rates{Input: 0.5, CachedInput: &half, Output: 3}}
	for _, tt := range []struct {
		name     string
		price    Price
		used     Usage
		searches int
		want     int64 // nano-USD
	}{
		{"a million of each", mini, Usage{Input: 1e6, Output: 1e6}, 0, 2_250_000_000},
		{"cached input", mini, Usage{Input: 1000, Cached: 600, Output: 10}, 0, 400*250 + 600*25 + 10*2000},
		{"more cached than there is", mini, Usage{Input: 10, Cached: 60}, 0, 10 * 25},
		{"cached input without a price of its own", Price{Rates: Rates{Input: 1}}, Usage{Input: 10, Cached: 6}, 0, 10_000},
		{"rounded up", Price{Rates: Rates{Input: 0.0015}}, Usage{Input: 1}, 0, 2},
		{"not by what floats lack", Price{Rates: Rates{Input: 0.035, Output: 0.14}}, Usage{Input: 3, Output: 1}, 0, 3*35 + 140},
		{"searches", Price{Search: 10}, Usage{}, 3, 30_000_000},
		{"searches that cost once", Price{Search: 35, SearchOnce: true}, Usage{}, 3, 35_000_000},
		{"no search that costs once", Price{Search: 35, SearchOnce: true}, Usage{}, 0, 0},
		{"written to a cache", kept, Usage{Input: 1000, Cached: 100, Written: 600}, 0, 300*250 + 100*25 + 600*500},
		{"more written than there is", kept, Usage{Input: 10, Cached: 4, Written: 60}, 0, 4*25 + 6*500},
		{"as long as it may be", long, Usage{Input: 1000, Output: 10}, 0, 1000*250 + 10*2000},
		{"longer", long, Usage{Input: 1001, Cached: 1, Output: 10}, 0, 1000*500 + 50 + 10*3000},
		// https://ai.google.dev/gemini-api/docs/pricing: "Retrieved context … is not
		// charged as input tokens"; usage of https://github.com/QuantumNous/new-api/issues/2935.
		{"what a search brought in", long, Usage{Input: 151 + 18329, Tools: 18329, Output: 1089 + 1120}, 0, 151*250 + 2209*2000},
		{"nothing", mini, Usage{}, 0, 0},
	} {
		if got := tt.price.Cost(tt.used, tt.searches); got != tt.want {
			t.Errorf("%s: cost %d, want %d", tt.name, got, tt.want)
		}
		if bound := tt.price.Bound(tt.used.Input, tt.used.Output, tt.searches); bound < tt.want && tt.used.Cached <= tt.used.Input {
			t.Errorf("%s: bound %d is below the cost of %d", tt.name, bound, tt.want)
		}
	}
}

// Reading 1,000 tokens saves 0.9 of their price, and writing as many costs a quarter more.
func TestWhatACacheSaves(t *testing.T) {
	t.Parallel()
	read, write := 0.1, 1.25
	kept := Price{Rates: Rates{Input: 1, Output: 5, CachedInput: &read, CacheWrite: &write}, Search: 10}
	for _, tt := range []struct {
		name string
		used Usage
		want int64
	}{
		{"nothing", Usage{Input: 3000, Output: 70}, 0},
		{"read", Usage{Input: 3000, Cached: 1000, Output: 70}, 900_000},
		{"written", Usage{Input: 3000, Written: 1000}, -250_000},
		{"both", Usage{Input: 3000, Cached: 1000, Written: 1000}, 650_000},
	} {
		if got := kept.Saved(tt.used); got != tt.want {
			t.Errorf("%s: saved %d, want %d", tt.name, got, tt.want)
		}
	}
}

// Flex is half of the list price: https://developers.openai.com/api/docs/guides/flex-processing.
func TestPriceInATier(t *testing.T) {
	t.Parallel()
	cached := 0.5
	list := Price{Rates: Rates{Input: 2, CachedInput: &cached, Output: 8}, Long: &LongRates{Above: 1000, Rates: Rates{Input: 4, Output: 12}}, Search: 10, Tiers: map[string]float64{"flex": 0.5, "fast": 3}}
	for _, tt := range []struct {
		tier string
		used Usage
		want int64 // nano-USD; -1: unknown
	}{
		{"", Usage{Input: 10, Output: 1}, 10_000_000 + 10*2000 + 8000},
		{"default", Usage{Input: 10, Output: 1}, 10_000_000 + 10*2000 + 8000},
		{"flex", Usage{Input: 10, Cached: 4, Output: 1}, 10_000_000 + 6*1000 + 4*250 + 4000},
		{"flex", Usage{Input: 2000, Output: 1}, 10_000_000 + 2000*2000 + 6000},
		{"priority", Usage{Input: 10}, -1},
	} {
		price, known := list.In(tt.tier)
		if got := price.Cost(tt.used, 1); known != (tt.want >= 0) || known && got != tt.want {
			t.Errorf("%q: got %d, known: %t; want %d", tt.tier, got, known, tt.want)
		}
	}
	if got := list.Bound(10, 1, 0); got != 3*(10*2000+8000) {
		t.Errorf("bound: got %d, want that of the dearest tier", got)
	}
}
