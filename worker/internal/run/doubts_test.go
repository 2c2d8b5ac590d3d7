package run

import (
	"testing"

	"github.com/evalfleet/evalfleet/eval"
)

// TestRefusalsUntilThePauseIsRecorded: of calls that a wrong key refuses, only the first can be taken for its run's own
// failure. Those in flight with it are not, however long it takes to record the pause.
func TestRefusalsUntilThePauseIsRecorded(t *testing.T) {
	var doubts Doubts
	var ends []func()
	for range 4 {
		ends = append(ends, doubts.Calls("ev-1", "locked"))
	}
	refused := func(run int, want bool) {
		t.Helper()
		alone, guilty := doubts.Refused("ev-1", "locked", eval.RunID{Evaluation: "ev-1", Index: run})
		if alone != want || guilty {
			t.Errorf("run %d: alone %t, guilty %t; want %t and false", run, alone, guilty, want)
		}
		ends[run]()
	}

	refused(0, true)
	refused(1, false)
	refused(2, false)
	refused(3, false)
	doubts.Paused("ev-1", "locked")

	// Resumed: one refusal is no evidence again.
	ends = append(ends, doubts.Calls("ev-1", "locked"))
	refused(4, true)
}
