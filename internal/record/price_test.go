package record

import (
	"testing"

	"github.com/evalfleet/evalfleet/providers"
)

func TestPrice(t *testing.T) {
	t.Parallel()
	cached := 0.025
	mini := Price{Input: 0.25, CachedInput: &cached, Output: 2}
	for _, tt := range []struct {
		name     string
		price    Price
		used     providers.Usage
		searches int
		want     int64 // nano-USD
	}{
		{"a million of each", mini, providers.Usage{Input: 1e6, Output: 1e6}, 0, 2_250_000_000},
		{"cached input", mini, providers.Usage{Input: 1000, Cached: 600, Output: 10}, 0, 400*250 + 600*25 + 10*2000},
		{"more cached than there is", mini, providers.Usage{Input: 10, Cached: 60}, 0, 10 * 25},
		{"cached input without a price of its own", Price{Input: 1}, providers.Usage{Input: 10, Cached: 6}, 0, 10_000},
		{"rounded up", Price{Input: 0.0015}, providers.Usage{Input: 1}, 0, 2},
		{"not by what floats lack", Price{Input: 0.035, Output: 0.14}, providers.Usage{Input: 3, Output: 1}, 0, 3*35 + 140},
		{"searches", Price{Search: 10}, providers.Usage{}, 3, 30_000_000},
		{"nothing", mini, providers.Usage{}, 0, 0},
	} {
		if got := tt.price.Cost(tt.used, tt.searches); got != tt.want {
			t.Errorf("%s: cost %d, want %d", tt.name, got, tt.want)
		}
		if bound := tt.price.Bound(tt.used.Input, tt.used.Output); tt.searches == 0 && bound < tt.want && tt.used.Cached <= tt.used.Input {
			t.Errorf("%s: bound %d is below the cost of %d", tt.name, bound, tt.want)
		}
	}
}
