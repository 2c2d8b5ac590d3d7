package record

import (
	"math"

	"github.com/evalfleet/evalfleet/providers"
)

// Price is what the calls of a model cost, in USD. Prices are exact to a
// millionth of a dollar for a million tokens.
type Price struct {
	Input  float64 `json:"input"`  // a million tokens of input
	Output float64 `json:"output"` // a million tokens of output
	// CachedInput is that of input that the provider had cached; nil: as Input.
	CachedInput *float64 `json:"cached_input,omitempty"`
	Search      float64  `json:"search,omitempty"` // a thousand searches
}

// pico is a price of a million as pico-USD of one.
func pico(million float64) int64 { return int64(math.Round(million * 1e6)) }

// nano is an amount of pico-USD in nano-USD, rounded up.
func nano(pico int64) int64 { return (pico + 999) / 1000 }

// Bound is the most that a call of so many tokens costs without searches, in
// nano-USD.
func (p Price) Bound(input, output int64) int64 {
	dearest := p.Input
	if p.CachedInput != nil {
		dearest = max(dearest, *p.CachedInput)
	}
	return nano(input*pico(dearest) + output*pico(p.Output))
}

// Cost is what a call cost that used so much, in nano-USD.
func (p Price) Cost(used providers.Usage, searches int) int64 {
	cached := p.Input
	if p.CachedInput != nil {
		cached = *p.CachedInput
	}
	fresh := max(0, used.Input-used.Cached)
	return nano(fresh*pico(p.Input) + (used.Input-fresh)*pico(cached) + used.Output*pico(p.Output) +
		int64(searches)*pico(p.Search*1000))
}
