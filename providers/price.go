package providers

import (
	"math"
)

// Price holds what the calls of a model cost, in USD. Prices are exact to a millionth of a dollar per million tokens.
type Price struct {
	Rates
	// Long replaces the rates for the whole of a call whose input is more than Long.Above tokens; nil: never.
	Long   *LongRates `json:"long,omitempty"`
	Search float64    `json:"search,omitempty"` // of a thousand searches
	// SearchOnce: a call pays for at most one search.
	SearchOnce bool `json:"search_once,omitempty"`
	// Tiers are the factors on the prices of tokens in service tiers other than the standard
	// one. The cost in a tier without a factor is unknown.
	Tiers map[string]float64 `json:"tiers,omitempty"`
	// TiersCached are the factors on the price of cached input where that has its own.
	TiersCached map[string]float64 `json:"tiers_cached,omitempty"`
	// AsOf is the day (year-month-day) on which these were the provider's prices; empty: not known.
	AsOf string `json:"as_of,omitempty"`
}

// Rates are the prices of tokens.
type Rates struct {
	Input  float64 `json:"input"`  // of a million tokens of input
	Output float64 `json:"output"` // of a million tokens of output
	// CachedInput is the price of input that the provider had cached; nil: as Input.
	CachedInput *float64 `json:"cached_input,omitempty"`
	// CacheWrite is the price of input that the provider caches for later; nil: as Input.
	CacheWrite *float64 `json:"cache_write,omitempty"`
}

// LongRates are the prices of calls with more input than Above tokens.
type LongRates struct {
	Above int64 `json:"above"`
	Rates
}

// greatest is the greatest amount of pico-USD. Sums of several such amounts do not overflow.
const greatest = math.MaxInt64 / 8

// pico converts the price in USD of a million units to the price in pico-USD of one, at most greatest.
func pico(million float64) int64 { return int64(math.Round(min(million*1e6, greatest))) }

// times returns n times an amount, at most greatest.
func times(n, amount int64) int64 {
	if n > 0 && amount > greatest/n {
		return greatest
	}
	return n * amount
}

// sum returns the sum of amounts, at most greatest.
func sum(amounts ...int64) int64 {
	total := int64(0)
	for _, amount := range amounts {
		total = min(total+amount, greatest)
	}
	return total
}

// nano converts pico-USD to nano-USD, rounded up.
func nano(pico int64) int64 { return (pico + 999) / 1000 }

// or returns rate, or otherwise if rate is nil.
func or(rate *float64, otherwise float64) float64 {
	if rate != nil {
		return *rate
	}
	return otherwise
}

// of returns the rates of a call with so many tokens of input.
func (p Price) of(input int64) Rates {
	if p.Long != nil && input > p.Long.Above {
		return p.Long.Rates
	}
	return p.Rates
}

// StandardTier reports whether a service tier named in an answer is the one of list prices, in
// the terms of OpenAI, Anthropic, Gemini and Groq.
func StandardTier(name string) bool {
	switch name {
	case "", "default", "standard", "auto", "on_demand":
		return true
	}
	return false
}

// In returns the price of a call that was served in the given tier, such as TierBatch; false: unknown.
func (p Price) In(tier string) (Price, bool) {
	if StandardTier(tier) || p.Free() {
		return p, true
	}
	factor, ok := p.Tiers[tier]
	if !ok {
		return Price{}, false
	}
	ofCached, ok := p.TiersCached[tier]
	if !ok {
		ofCached = factor
	}
	return p.times(factor, ofCached), true
}

// Free reports whether tokens cost nothing, in whatever tier.
func (p Price) Free() bool { return p.Rates == Rates{} && p.Long == nil }

// times returns the price with the rates of tokens multiplied by factors; searches cost the same.
func (p Price) times(factor, ofCached float64) Price {
	p.Rates, p.Tiers, p.TiersCached = p.Rates.times(factor, ofCached), nil, nil
	if p.Long != nil {
		p.Long = &LongRates{p.Long.Above, p.Long.times(factor, ofCached)}
	}
	return p
}

func (r Rates) times(factor, ofCached float64) Rates {
	scaled := func(rate *float64, factor float64) *float64 {
		if rate == nil {
			return nil
		}
		product := *rate * factor
		return &product
	}
	return Rates{r.Input * factor, r.Output * factor, scaled(r.CachedInput, ofCached), scaled(r.CacheWrite, factor)}
}

// Bound returns the most that a call with so many tokens and searches can cost, in nano-USD, in any tier whose price is
// known.
func (p Price) Bound(input, output int64, searches int) int64 {
	dearest := 1.0
	for _, factor := range p.Tiers {
		dearest = max(dearest, factor)
	}
	if dearest > 1 {
		p = p.times(dearest, dearest)
	}
	r := p.of(input)
	dearestInput := max(r.Input, or(r.CachedInput, 0), or(r.CacheWrite, 0))
	return nano(sum(times(input, pico(dearestInput)), times(output, pico(r.Output)), p.searched(searches)))
}

// Cost returns the cost, in nano-USD, of a call with this usage and number of searches. Input that the provider's tools
// brought in is free.
func (p Price) Cost(used Usage, searches int) int64 {
	input := used.Input - min(used.Tools, used.Input)
	r := p.of(input)
	cached := min(used.Cached, input)
	written := min(used.Written, input-cached)
	return nano(sum(times(input-cached-written, pico(r.Input)), times(cached, pico(or(r.CachedInput, r.Input))),
		times(written, pico(or(r.CacheWrite, r.Input))), times(used.Output, pico(r.Output)), p.searched(searches)))
}

// Saved returns how much less a call with this usage cost because of the provider's prompt cache, in nano-USD. It is
// negative if what the call wrote to the cache cost more than what it read saved.
func (p Price) Saved(used Usage) int64 {
	uncached := used
	uncached.Cached, uncached.Written = 0, 0
	return p.Cost(uncached, 0) - p.Cost(used, 0)
}

// searched returns what n searches of one call cost, in pico-USD.
func (p Price) searched(n int) int64 {
	if p.SearchOnce {
		n = min(n, 1)
	}
	return times(int64(n), pico(p.Search*1000))
}
