package providers

import (
	"math"
)

// Price is what the calls of a model cost, in USD. Prices are exact to a
// millionth of a dollar for a million tokens.
type Price struct {
	Rates
	// Long holds instead, for the whole of a call, where its input is Long.Above
	// tokens; nil: never.
	Long   *LongRates `json:"long,omitempty"`
	Search float64    `json:"search,omitempty"` // a thousand searches
	// SearchOnce: a call pays for one search, however many it makes.
	SearchOnce bool `json:"search_once,omitempty"`
}

// Rates are the prices of tokens.
type Rates struct {
	Input  float64 `json:"input"`  // a million tokens of input
	Output float64 `json:"output"` // a million tokens of output
	// CachedInput is that of input that the provider had cached; nil: as Input.
	CachedInput *float64 `json:"cached_input,omitempty"`
	// CacheWrite is that of input that the provider keeps for later; nil: as Input.
	CacheWrite *float64 `json:"cache_write,omitempty"`
}

// LongRates are those of calls with more input than Above tokens.
type LongRates struct {
	Above int64 `json:"above"`
	Rates
}

// pico is a price of a million as pico-USD of one.
func pico(million float64) int64 { return int64(math.Round(million * 1e6)) }

// nano is an amount of pico-USD in nano-USD, rounded up.
func nano(pico int64) int64 { return (pico + 999) / 1000 }

// or is the rate where it is stated, else another.
func or(rate *float64, otherwise float64) float64 {
	if rate != nil {
		return *rate
	}
	return otherwise
}

// of are the rates of a call with so much input.
func (p Price) of(input int64) Rates {
	if p.Long != nil && input > p.Long.Above {
		return p.Long.Rates
	}
	return p.Rates
}

// Bound is the most that a call of so many tokens and searches costs, in nano-USD.
func (p Price) Bound(input, output int64, searches int) int64 {
	r := p.of(input)
	dearest := max(r.Input, or(r.CachedInput, 0), or(r.CacheWrite, 0))
	return nano(input*pico(dearest) + output*pico(r.Output) + p.searched(searches))
}

// Cost is what a call cost that used so much, in nano-USD.
func (p Price) Cost(used Usage, searches int) int64 {
	r := p.of(used.Input)
	cached := min(used.Cached, used.Input)
	written := min(used.Written, used.Input-cached)
	return nano((used.Input-cached-written)*pico(r.Input) + cached*pico(or(r.CachedInput, r.Input)) +
		written*pico(or(r.CacheWrite, r.Input)) + used.Output*pico(r.Output) + p.searched(searches))
}

// searched is what so many searches of one call cost, in pico-USD.
func (p Price) searched(n int) int64 {
	if p.SearchOnce {
		n = min(n, 1)
	}
	return int64(n) * pico(p.Search*1000)
}
