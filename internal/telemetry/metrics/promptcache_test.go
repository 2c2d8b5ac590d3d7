package metrics

import (
	"net/http"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker"
)

// What prompt caches save and what they cost are counted apart, because a count cannot fall.
func TestPromptCaches(t *testing.T) {
	t.Parallel()
	m := NewWorker(&worker.Probe{}, 1, "v1.2.3")
	read, write, cost := 100_000.0, 1_250_000.0, 1.0
	for _, used := range []providers.Usage{ // at a dollar a token
		{Reported: true, Cached: 10, Input: 10, CostUSD: &cost},
		{Reported: true, Written: 20, Input: 20, CostUSD: &cost},
	} {
		price := &providers.Price{Rates: providers.Rates{Input: 1_000_000, CachedInput: &read, CacheWrite: &write}}
		m.Call(record.Call{ID: "0.1.0-worker-1", Model: "anthropic:claude", Usage: used, Price: price})
	}

	text := get(t, m, MetricsPath, http.StatusOK)
	for _, line := range []string{
		`evalfleet_prompt_cache_saved_usd_total{model="claude",provider="anthropic"} 9`,
		`evalfleet_prompt_cache_extra_usd_total{model="claude",provider="anthropic"} 5`,
		`evalfleet_tokens_total{model="claude",provider="anthropic",token_type="cached"} 10`,
		`evalfleet_tokens_total{model="claude",provider="anthropic",token_type="cache_write"} 20`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("metrics lack %q", line)
		}
	}
}
