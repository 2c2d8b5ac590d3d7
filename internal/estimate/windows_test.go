package estimate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/estimate"
	"github.com/evalfleet/evalfleet/providers"
)

// TestPromptsAboveAWindowAreCounted: those of each judge whose window is known, before anything
// is asked.
func TestPromptsAboveAWindowAreCounted(t *testing.T) {
	t.Parallel()
	word := strings.Repeat("four", 8000) // 10,000 tokens
	q := question(t, 0, "short", word, word+"!")
	q.Capabilities = func(judge eval.Judge) providers.Capabilities {
		return providers.Capabilities{ContextWindow: map[string]int{"one": 8192}[judge.Provider]}
	}
	got, err := estimate.OverWindows(q)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i].Largest < 10000 || got[i].Largest > 11000+10000*i {
			t.Errorf("%s: the largest prompt has %d tokens", got[i].Kind, got[i].Largest)
		}
		got[i].Largest = 0
	}
	want := []estimate.TooLarge{
		{Kind: eval.KindSingle, Judge: "a", Window: 8192, Runs: 3, Prompts: 2},
		{Kind: eval.KindPairwise, Judge: "a", Window: 8192, Runs: 3 * 2 * 3, Prompts: 3 * 2 * 3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("too large (-want +got):\n%s", diff)
	}
	if all := mustEstimate(t, q).TooLarge; len(all) != 2 || !strings.HasPrefix(all[0].String(), "2 of 3 single prompts to a are larger than its context window of 8,192 tokens") {
		t.Errorf("of the estimate: got %v", all)
	}

	q.Capabilities = func(eval.Judge) providers.Capabilities { return providers.Capabilities{ContextWindow: 100_000} }
	if got, err := estimate.OverWindows(q); err != nil || len(got) != 0 {
		t.Errorf("in a large window: got %v, %v", got, err)
	}
}
