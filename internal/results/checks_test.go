package results

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
)

// TestChecksAreScores: a stored evaluation keeps which texts fail which checks, and its table of scores has a row for
// each text and check.
func TestChecksAreScores(t *testing.T) {
	t.Parallel()
	e, texts := essays()
	e.Plan.Checks = []eval.Check{{Name: "json", Kind: eval.CheckJSONSchema, Value: "{}", Gate: true}, {Name: "short", Kind: eval.CheckMaxWords, Value: "9"}}
	e.Plan.Documents[1].Failed = []eval.FailedCheck{{Check: 1, Why: "it has 10 words"}}
	e.ID = e.Plan.ID()
	db, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "results.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.PutEvaluation(t.Context(), e, texts); err != nil {
		t.Fatal(err)
	}
	stored, err := db.Evaluation(t.Context(), e.ID)
	if err != nil {
		t.Fatal(err)
	}

	var got []string
	for row, err := range scoreRows(t.Context(), db, stored) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d %s %s %s %s %g %s", row.Phase, row.Item, row.Candidate, row.Judge, row.Criterion, row.Score, row.Reason))
	}
	want := []string{
		"-1 q1 a check json 1 ", "-1 q1 a check short 1 ", "-1 q1 b check json 1 ", "-1 q1 b check short 0 it has 10 words",
		"-1 q1 c check json 1 ", "-1 q1 c check short 1 ", "-1 q1 d check json 1 ", "-1 q1 d check short 1 ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}
