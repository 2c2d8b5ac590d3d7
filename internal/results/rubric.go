package results

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// Scores yields the scores of documents that a ranking uses, given those of an evaluation as SingleRows yields them. A
// run that says which criteria of a rubric are met has one score, by their points, without a reason. The error names a
// run that does not say it of every criterion.
func Scores(e *eval.Evaluation, rows iter.Seq2[SingleRow, error]) iter.Seq2[SingleRow, error] {
	items := e.Rubrics()
	if items == nil {
		return rows
	}

	return func(yield func(SingleRow, error) bool) {
		var run rubricRun
		for row, err := range rows {
			if err == nil && (row.Phase != run.row.Phase || row.Index != run.row.Index) && run.seen > 0 {
				if !yield(run.score()) {
					return
				}
				run.seen = 0
			}

			if err == nil {
				err = run.add(row, items[row.Document])
			}
			if err != nil {
				yield(row, err)
				return
			}
		}
		if run.seen > 0 {
			yield(run.score())
		}
	}
}

// rubricRun collects what a run says of the criteria of a rubric.
type rubricRun struct {
	row  SingleRow // the run's first
	item eval.Item
	met  []float64 // by criterion
	seen int       // rows; 0: none
}

// add adds a row. The results store has at most one for each criterion of a run.
func (r *rubricRun) add(row SingleRow, item eval.Item) error {
	at := item.RubricPosition(row.Criterion)
	if at < 0 {
		return fmt.Errorf("result %d.%d names criterion %q, which the rubric of %q does not have", row.Phase, row.Index, row.Criterion, item.ID)
	}
	if r.seen == 0 {
		r.row, r.item, r.met = row, item, make([]float64, len(item.Rubric))
	}
	r.met[at] = row.Score
	r.seen++
	return nil
}

// score returns the score of the run.
func (r *rubricRun) score() (SingleRow, error) {
	row := r.row
	if r.seen != len(r.item.Rubric) {
		return row, fmt.Errorf("result %d.%d has %d of the %d criteria of the rubric of %q",
			row.Phase, row.Index, r.seen, len(r.item.Rubric), r.item.ID)
	}
	row.Criterion, row.Reason = eval.RubricName, ""
	row.Score = r.item.RubricScore(r.met)
	return row, nil
}

// written yields rows as tables have them: a criterion of a rubric by its text, and with its points.
func written(e *eval.Evaluation, rows iter.Seq2[SingleRow, error]) iter.Seq2[SingleRow, error] {
	items := e.Rubrics()
	if items == nil {
		return rows
	}

	return func(yield func(SingleRow, error) bool) {
		for row, err := range rows {
			item := items[row.Document]
			if at := item.RubricPosition(row.Criterion); at >= 0 {
				row.Criterion, row.Points = item.Rubric[at].Text, item.Rubric[at].Points
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// WriteCriteria names the criteria of a rubric in a run's scores by their texts.
func WriteCriteria(e *eval.Evaluation, run *record.Run) {
	if e.Single == nil || !e.Single.Rubric || run.Kind != eval.KindSingle {
		return
	}
	i, found := slices.BinarySearchFunc(e.Items, run.Item, func(item eval.Item, id string) int { return cmp.Compare(item.ID, id) })
	if !found {
		return
	}
	run.Scores = slices.Clone(run.Scores)
	for k, score := range run.Scores {
		if at := e.Items[i].RubricPosition(score.Criterion); at >= 0 {
			run.Scores[k].Criterion = e.Items[i].Rubric[at].Text
		}
	}
}
