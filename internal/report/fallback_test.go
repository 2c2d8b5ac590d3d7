package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/internal/results"
)

// How many runs another model answered is said where an evaluation falls back, and
// what to change when they are many.
func TestNotesOnFallbacks(t *testing.T) {
	t.Parallel()
	m := typical()
	m.statistics = results.Statistics{Total: 10, Primary: 8, Fallback: 2, RateLimitWaits: 5, RateLimitFallbacks: 2, Waited: 3}
	if notes := strings.Join(built(t, m, Options{}).Notes(), "\n"); strings.Contains(notes, "fallback") {
		t.Errorf("fallbacks are told of an evaluation that has none:\n%s", notes)
	}
	how := record.DefaultFallback
	m.evaluation.Settings.Fallback = &how
	notes := built(t, m, Options{}).Notes()
	for _, want := range []string{
		"8 of 10 runs answered by the model asked, 2 by a fallback; 5 waits for rate limits.",
		"20 % of the runs were answered by fallback models, more than 10 %: raise fallback.max_wait_seconds (300) or fallback.max_retries (3).",
	} {
		if !slices.Contains(notes, want) {
			t.Errorf("got %q, want %q among them", notes, want)
		}
	}
}
