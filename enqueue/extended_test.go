package enqueue

import (
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// TestExtendedRecordsAreRefused: the record of an evaluation that asks for what the first releases do not know has a version
// that they refuse. Other records keep theirs.
func TestExtendedRecordsAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ask  func(*eval.Evaluation)
		want int
	}{
		"plain":    {func(*eval.Evaluation) {}, record.EvaluationVersion},
		"ties":     {func(e *eval.Evaluation) { e.Pairwise.Ties = true }, record.EvaluationVersion},
		"criteria": {func(e *eval.Evaluation) { e.Pairwise.Criteria = []eval.Criterion{{Name: "style"}} }, record.EvaluationVersionExtended},
		"rubrics":  {func(e *eval.Evaluation) { e.Single = &eval.Single{Rubric: true, Trials: 1} }, record.EvaluationVersionExtended},
		"images":   {func(e *eval.Evaluation) { e.Documents[0].Images = []eval.Image{{Hash: "3"}} }, record.EvaluationVersionExtended},
		"soft":     {func(e *eval.Evaluation) { e.Pairwise.Soft = true }, record.EvaluationVersionExtended},
		"degrees":  {func(e *eval.Evaluation) { e.Pairwise.Degrees = 2 }, record.EvaluationVersionExtended},
	} {
		e := &eval.Evaluation{
			PlanVersion: eval.PlanVersion, Items: []eval.Item{{}}, Judges: []eval.Judge{{Name: "j", Provider: "p", Model: "m"}},
			Documents: []eval.Document{{ID: "a", Candidate: "a", Hash: "1"}, {ID: "b", Candidate: "b", Hash: "2"}},
			Pairwise:  &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1},
		}
		tt.ask(e)
		r, _, err := Plan(e.ID(), e, record.Settings{Priority: 1})
		if err != nil || r.Version() != tt.want {
			t.Errorf("%s: version %d, %v, want %d", name, r.Version(), err, tt.want)
		}
	}
}
