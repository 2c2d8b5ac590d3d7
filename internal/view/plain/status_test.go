package plain

import (
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/view"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Only a higher budget helps an evaluation whose budget is spent: the status does not advise
// to resume it, as it does where providers are paused.
func TestStatusOfAStoppedEvaluation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stop   results.Stop
		resume bool
	}{
		"budget":   {results.Stop{Budget: 2 * ratelimit.Dollar, Spent: ratelimit.Dollar}, false},
		"provider": {results.Stop{Paused: map[string]record.Pause{"openai": {Message: "no key"}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := Status([]view.Evaluation{{ID: "ev-abcdefgh2345", Name: "essays", Status: view.StatusStopped, Stopped: &c.stop}}, time.Now(), 100)
			if got := strings.Contains(text, "evalfleet resume"); got != c.resume {
				t.Errorf("it advises to resume: %t, want %t\n%s", got, c.resume, text)
			}
			if got := strings.Contains(text, "raise budget"); got == c.resume {
				t.Errorf("it advises to raise the budget: %t, want %t\n%s", got, !c.resume, text)
			}
		})
	}
}

// TestStatusOfAnEscalation: the runs of a strong judge are a maximum until its pairs are chosen, and say whose they are.
func TestStatusOfAnEscalation(t *testing.T) {
	t.Parallel()
	phases := []view.Phase{
		{Kind: eval.KindPairwise, Runs: 40, Succeeded: 10},
		{Kind: eval.KindPairwise, Runs: 20, Strong: "careful", Open: true},
	}
	text := func() string {
		return Status([]view.Evaluation{{ID: "ev-abcdefgh2345", Name: "essays", Status: record.StatusActive, Phases: phases}}, time.Now(), 100)
	}
	if got := text(); !strings.Contains(got, "at most 20") || !strings.Contains(got, "begins after the phase before") ||
		!strings.Contains(got, "contested pairs and a sample of the others, for careful") {
		t.Errorf("before the choice:\n%s", got)
	}
	phases[1].Open, phases[1].Runs, phases[1].Succeeded = false, 12, 3
	if got := text(); strings.Contains(got, "at most") || !strings.Contains(got, "3/12") {
		t.Errorf("after the choice:\n%s", got)
	}
}
