package results

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

func rubricPlan() *eval.Evaluation {
	return &eval.Evaluation{
		Items: []eval.Item{
			{ID: "p", Rubric: []eval.RubricCriterion{{Text: "Names it.", Points: 4}}},
			{ID: "q", Rubric: []eval.RubricCriterion{{Text: "Names it.", Points: 3}, {Text: "Is brief.", Points: 1}, {Text: "Invents.", Points: -2}}},
		},
		Documents: []eval.Document{{ID: "a", Item: 0}, {ID: "b", Item: 1}},
		Single:    &eval.Single{Rubric: true, Criteria: []eval.Criterion{{Name: eval.RubricName}}, Scale: eval.Scale{Min: -50, Max: 100}},
	}
}

func metRow(index int, document, criterion string, met float64) SingleRow {
	return SingleRow{Index: index, Document: document, Criterion: criterion, Score: met, Reason: "because", Judge: "strict", Trial: 1}
}

// TestScoresOfRubrics: each run has one score, of its points.
func TestScoresOfRubrics(t *testing.T) {
	t.Parallel()
	rows := []SingleRow{
		metRow(0, "a", "rubric 1", 1),
		metRow(1, "b", "rubric 1", 1), metRow(1, "b", "rubric 2", 0), metRow(1, "b", "rubric 3", 1),
		metRow(2, "b", "rubric 1", 0), metRow(2, "b", "rubric 2", 0), metRow(2, "b", "rubric 3", 1),
	}
	of := func(index int, document string, score float64) SingleRow {
		return SingleRow{Index: index, Document: document, Criterion: eval.RubricName, Score: score, Judge: "strict", Trial: 1}
	}
	got, err := collect(Scores(rubricPlan(), yieldAll(rows)))
	if diff := cmp.Diff([]SingleRow{of(0, "a", 100), of(1, "b", 25), of(2, "b", -50)}, got); err != nil || diff != "" {
		t.Errorf("%v, scores (-want +got):\n%s", err, diff)
	}

	e := rubricPlan()
	e.Single = &eval.Single{Criteria: []eval.Criterion{{Name: "style"}}}
	style := []SingleRow{metRow(0, "a", "style", 4)}
	if got, err := collect(Scores(e, yieldAll(style))); err != nil || !cmp.Equal(style, got) {
		t.Errorf("without rubrics: %v, %v, want %v", got, err, style)
	}
}

// TestIncompleteRubrics: a criterion that is missing is not one that is not met.
func TestIncompleteRubrics(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rows []SingleRow
		says string
	}{
		"at the end":      {[]SingleRow{metRow(1, "b", "rubric 1", 1), metRow(1, "b", "rubric 2", 0)}, "result 0.1 has 2 of the 3 criteria"},
		"in the middle":   {[]SingleRow{metRow(1, "b", "rubric 3", 1), metRow(2, "a", "rubric 1", 1)}, "result 0.1 has 1 of the 3 criteria"},
		"another item's":  {[]SingleRow{metRow(0, "a", "rubric 1", 1), metRow(0, "a", "rubric 2", 1)}, `names criterion "rubric 2"`},
		"no criterion":    {[]SingleRow{metRow(0, "a", "style", 1)}, `names criterion "style"`},
		"a new document":  {[]SingleRow{metRow(0, "z", "rubric 1", 1)}, `names criterion "rubric 1"`},
		"the score alone": {[]SingleRow{metRow(0, "a", eval.RubricName, 90)}, `names criterion "rubric"`},
	} {
		if got, err := collect(Scores(rubricPlan(), yieldAll(c.rows))); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v, want an error with %q", name, got, err, c.says)
		}
	}
}

// TestFoundByRubrics: the best texts of an item are those with the most points.
func TestFoundByRubrics(t *testing.T) {
	t.Parallel()
	e := rubricPlan()
	e.Judges = []eval.Judge{{Name: "strict"}}
	e.Documents = append(e.Documents, eval.Document{ID: "c", Item: 1})
	e.Single.Trials = 1
	e.Pairwise = &eval.Pairwise{Pairs: eval.Pairs{Mode: eval.PairsAll}, Order: eval.OrderBoth, Trials: 1, TopN: 1}
	r := rowsReader{single: []SingleRow{
		metRow(0, "a", "rubric 1", 0),
		metRow(1, "b", "rubric 1", 0), metRow(1, "b", "rubric 2", 1), metRow(1, "b", "rubric 3", 1), // more criteria, fewer points
		metRow(2, "c", "rubric 1", 1), metRow(2, "c", "rubric 2", 0), metRow(2, "c", "rubric 3", 0),
	}}
	found, err := Found(t.Context(), r, e.ID(), e, 1)
	if diff := cmp.Diff([]float64{0, -25, 75}, found.Scores); err != nil || diff != "" {
		t.Errorf("%v, scores (-want +got):\n%s", err, diff)
	}
}

// TestRubricsInTables: a criterion is written as its text, with its points.
func TestRubricsInTables(t *testing.T) {
	t.Parallel()
	got, err := collect(written(rubricPlan(), yieldAll([]SingleRow{metRow(1, "b", "rubric 3", 1), metRow(2, "b", "rubric 9", 1)})))
	want := []SingleRow{metRow(1, "b", "Invents.", 1), metRow(2, "b", "rubric 9", 1)}
	want[0].Points = -2
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, rows (-want +got):\n%s", err, diff)
	}
}

// TestCriteriaOfARun: the page of a run names what its judge was asked.
func TestCriteriaOfARun(t *testing.T) {
	t.Parallel()
	run := record.Run{Kind: eval.KindSingle, Item: "q", Scores: []record.Score{{Criterion: "rubric 2", Score: 1}, {Criterion: "rubric 10"}}}
	same := run
	WriteCriteria(rubricPlan(), &run)
	if want := []record.Score{{Criterion: "Is brief.", Score: 1}, {Criterion: "rubric 10"}}; !cmp.Equal(want, run.Scores) {
		t.Errorf("scores %v, want %v", run.Scores, want)
	}
	if same.Scores[0].Criterion != "rubric 2" {
		t.Error("the record itself was changed")
	}
}
