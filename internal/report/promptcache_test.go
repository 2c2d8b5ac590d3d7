package report

import (
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/results"
)

// The card, the tables and the page say what prompt caches saved, and when they cost more.
func TestWhatPromptCachesSavedIsSaid(t *testing.T) {
	t.Parallel()
	for want, saved := range map[string]float64{
		"25.0 % of the input read from prompt caches, which saved $1.50":                   1.5,
		"25.0 % of the input read from prompt caches, which cost $1.50 more than it saved": -1.5,
		"25.0 % of the input read from prompt caches":                                      0,
	} {
		m := typical()
		m.calls = []results.CallTotal{
			{Model: "anthropic:claude", Stage: "verdict", Usage: results.Usage{Calls: 1, Input: 1500, Cached: 500, Written: 100, SavedUSD: 2 * saved}},
			{Model: "openai:gpt", Stage: "verdict", Usage: results.Usage{Calls: 1, Input: 500, SavedUSD: -saved}},
		}
		r := built(t, m, Options{})
		if got := r.PromptCache(); got != want {
			t.Errorf("PromptCache() = %q, want %q", got, want)
		}
		var text strings.Builder
		if err := r.WriteText(&text, TextOptions{}); err != nil {
			t.Fatal(err)
		}
		for form, said := range map[string]string{"card": card(t, r, CardOptions{}), "text": text.String(), "page": pageOf(t, r)} {
			if !strings.Contains(strings.Join(strings.Fields(said), " "), want) {
				t.Errorf("the %s lacks %q", form, want)
			}
		}
	}

	if words := built(t, typical(), Options{}).PromptCache(); words != "" {
		t.Errorf("without caches it says %q", words)
	}
}
