package record

import (
	"fmt"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/rank"
)

// StoppedByUntil is the Stopped of an evaluation that ended because its best candidates are known.
// It has the status paused, so that it can be resumed or submitted with other settings.
const StoppedByUntil = "until"

// HasEnded reports whether an evaluation with this status, which the fleet stopped for this reason
// or "", has ended. Nothing of it is executed unless a person asks for more.
func HasEnded(status Status, stopped string) bool {
	return status == StatusDone || status == StatusCancelled || status == StatusPaused && stopped == StoppedByUntil
}

// Until ends an evaluation as soon as its best candidates are known.
type Until struct {
	Top        int     `json:"top"`
	Confidence float64 `json:"confidence,omitempty"` // 0: 95 %
	MaxPairs   int     `json:"max_pairs,omitempty"`  // 0: all. Settings.Limit bounds the runs accordingly
}

// Rule returns the rule for the candidates of an evaluation.
func (u Until) Rule(e *eval.Evaluation) rank.Until {
	names := map[string]bool{}
	for _, d := range e.Documents {
		names[d.Candidate] = true
	}
	return rank.Until{Candidates: len(names), Top: u.Top, Confidence: u.Confidence}
}

func (u *Until) check() error {
	if u != nil && (u.Top < 1 || u.MaxPairs < 0 || !(u.Confidence >= 0 && u.Confidence < 1)) {
		return fmt.Errorf("invalid until: top %d, confidence %g, %d pairs", u.Top, u.Confidence, u.MaxPairs)
	}
	return nil
}
