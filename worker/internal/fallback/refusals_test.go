package fallback

import (
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// A refusal is first once, holds for a minute, and goes with its evaluation.
func TestRefusalsOfEndedEvaluationsAreForgotten(t *testing.T) {
	t.Parallel()
	var r Refusals
	active, ended := refuser{"ev-active", "p"}, refuser{"ev-ended", "p"}
	now := time.Now()
	for _, by := range []refuser{active, ended} {
		if !r.note(by, &run.GaveUp{}, now) {
			t.Errorf("the first refusal of %v was known before", by)
		}
	}
	r.Keep(map[eval.ID]bool{"ev-active": true})
	if r.note(active, &run.GaveUp{}, now) || !r.note(ended, &run.GaveUp{}, now) {
		t.Error("refusals are remembered of others than the active evaluation")
	}
}
