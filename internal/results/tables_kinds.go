package results

import (
	"context"
	"iter"
	"math"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/table"
)

var pairwiseTable = table.Table[PairwiseRow]{
	table.Text("id", "the run", func(r PairwiseRow) string { return runCell(r.Phase, r.Index) }),
	table.Text("doc_id_1", "the document shown first", func(r PairwiseRow) string { return r.Document1 }),
	table.Text("doc_id_2", "the document shown second", func(r PairwiseRow) string { return r.Document2 }),
	table.Text("model", "`provider:model` asked", func(r PairwiseRow) string { return r.Model }),
	table.Integer("trial", "from 1", func(r PairwiseRow) int { return r.Trial }),
	table.Text("winner_doc_id", "the better document, or `tie`", func(r PairwiseRow) string { return r.Winner }),
	table.Text("reason", "the judge's; `identical`, `gate: CHECK` or `gates: both fail`: no model was asked",
		func(r PairwiseRow) string { return r.Reason }),
	table.Time("timestamp", "when the run ended", func(r PairwiseRow) time.Time { return r.Timestamp }),
	table.Text("item", "the item", func(r PairwiseRow) string { return r.Item }),
	table.Text("order", "`forward`: doc_id_1 sorts before doc_id_2; `reverse`", func(r PairwiseRow) string { return r.Order }),
	table.Text("judge", "the judge", func(r PairwiseRow) string { return r.Judge }),
	table.Text("answered_by", "`provider:model` that answered; empty: none was asked", func(r PairwiseRow) string { return r.AnsweredBy }),
	table.Text("candidate_1", "of doc_id_1", func(r PairwiseRow) string { return r.Candidate1 }),
	table.Text("candidate_2", "of doc_id_2", func(r PairwiseRow) string { return r.Candidate2 }),
	table.Positive("degree", "by how much the winner is better, from 1; missing of a tie, and without `scale`",
		func(r PairwiseRow) int { return r.Degree }),
	table.Number("p_doc_1", "probability that the judge prefers doc_id_1, of a verdict that is soft; missing without `soft`, and of hard "+
		"verdicts",
		func(r PairwiseRow) float64 { return chanceOf(r, func(c eval.Chances) float64 { return c.First }) }),
	table.Number("p_tie", "probability of a tie",
		func(r PairwiseRow) float64 { return chanceOf(r, func(c eval.Chances) float64 { return c.Tie }) }),
	table.Number("p_doc_2", "probability that it prefers doc_id_2; the sum of the three is 1",
		func(r PairwiseRow) float64 { return chanceOf(r, func(c eval.Chances) float64 { return c.Second }) }),
}

// chanceOf returns a probability of a verdict; NaN if it has none.
func chanceOf(r PairwiseRow, of func(eval.Chances) float64) float64 {
	if r.Chances == nil {
		return math.NaN()
	}
	return of(*r.Chances)
}

// criterionRow is a judge's verdict on a pair by one criterion.
type criterionRow struct {
	PairwiseRow
	By record.Preference // without a winner: the judge left it out
}

var criteriaTable = table.Table[criterionRow]{
	table.Text("id", "the run", func(r criterionRow) string { return runCell(r.Phase, r.Index) }),
	table.Text("criterion", "the criterion", func(r criterionRow) string { return r.By.Criterion }),
	table.Text("doc_id_1", "the document shown first", func(r criterionRow) string { return r.Document1 }),
	table.Text("doc_id_2", "the document shown second", func(r criterionRow) string { return r.Document2 }),
	table.Text("winner_doc_id", "the better document by this criterion, or `tie`; empty: the judge left it out",
		func(r criterionRow) string { return r.By.Winner }),
	table.Positive("degree", "by how much it is better, from 1; missing of a tie, and without `scale`",
		func(r criterionRow) int { return r.By.Degree }),
	table.Text("overall", "the better document overall, or `tie`", func(r criterionRow) string { return r.Winner }),
	table.Text("item", "the item", func(r criterionRow) string { return r.Item }),
	table.Text("judge", "the judge", func(r criterionRow) string { return r.Judge }),
	table.Text("model", "`provider:model` asked", func(r criterionRow) string { return r.Model }),
	table.Text("answered_by", "`provider:model` that answered", func(r criterionRow) string { return r.AnsweredBy }),
	table.Integer("trial", "from 1", func(r criterionRow) int { return r.Trial }),
	table.Text("candidate_1", "of doc_id_1", func(r criterionRow) string { return r.Candidate1 }),
	table.Text("candidate_2", "of doc_id_2", func(r criterionRow) string { return r.Candidate2 }),
}

// criterionRows yields the verdicts of judges by criterion: of each run all criteria of the evaluation, in their order.
// Runs for which no model was asked have none.
func criterionRows(ctx context.Context, r Reader, e Evaluation) iter.Seq2[criterionRow, error] {
	return func(yield func(criterionRow, error) bool) {
		for row, err := range pairwiseRows(ctx, r, e) {
			if err != nil {
				yield(criterionRow{}, err)
				return
			}
			if row.AnsweredBy == "" {
				continue
			}
			for _, c := range e.Plan.Pairwise.Criteria {
				said := record.Preference{Criterion: c.Name}
				for _, p := range row.Criteria {
					if p.Criterion == c.Name {
						said = p
					}
				}
				if !yield(criterionRow{row, said}, nil) {
					return
				}
			}
		}
	}
}

var singleTable = table.Table[SingleRow]{
	table.Text("id", "the run", func(r SingleRow) string { return runCell(r.Phase, r.Index) }),
	table.Text("doc_id", "the document", func(r SingleRow) string { return r.Document }),
	table.Text("model", "`provider:model` asked", func(r SingleRow) string { return r.Model }),
	table.Integer("trial", "from 1", func(r SingleRow) int { return r.Trial }),
	table.Text("criterion", "the criterion, or the text of one of a rubric", func(r SingleRow) string { return r.Criterion }),
	table.Number("score", "on the evaluation's scale; of a criterion of a rubric 1 if it is met, otherwise 0",
		func(r SingleRow) float64 { return r.Score }),
	table.Text("reason", "the judge's", func(r SingleRow) string { return r.Reason }),
	table.Time("timestamp", "when the run ended", func(r SingleRow) time.Time { return r.Timestamp }),
	table.Text("item", "the item", func(r SingleRow) string { return r.Item }),
	table.Text("judge", "the judge", func(r SingleRow) string { return r.Judge }),
	table.Text("answered_by", "`provider:model` that answered", func(r SingleRow) string { return r.AnsweredBy }),
	table.Text("candidate", "whose document it is", func(r SingleRow) string { return r.Candidate }),
}

var panelTable = table.Table[PanelRow]{
	table.Text("id", "the run", func(r PanelRow) string { return runCell(r.Phase, r.Index) }),
	table.Text("doc_id", "the document", func(r PanelRow) string { return r.Document }),
	table.Text("agent", "the agent", func(r PanelRow) string { return r.Agent }),
	table.Text("criterion_id", "the dimension", func(r PanelRow) string { return r.Dimension }),
	table.Number("score", "missing: the run failed", func(r PanelRow) float64 {
		if r.Score == nil {
			return math.NaN()
		}
		return *r.Score
	}),
	table.Text("argument", "the agent's, or the text that replaces it where the run failed", func(r PanelRow) string { return r.Argument }),
	table.Text("model", "`provider:model` asked", func(r PanelRow) string { return r.Model }),
	table.Time("timestamp", "when the run ended", func(r PanelRow) time.Time { return r.Timestamp }),
	table.Text("item", "the item", func(r PanelRow) string { return r.Item }),
	table.Text("answered_by", "`provider:model` that answered; empty: none did", func(r PanelRow) string { return r.AnsweredBy }),
	table.Text("candidate", "whose document it is", func(r PanelRow) string { return r.Candidate }),
}

// voteTable has the columns of a file of votes, so that its CSV can be used as one.
var voteTable = table.Table[VoteRow]{
	table.Text("item", "the item", func(r VoteRow) string { return r.Item }),
	table.Text("candidate_a", "of doc_id_1", func(r VoteRow) string { return r.Candidate1 }),
	table.Text("candidate_b", "of doc_id_2", func(r VoteRow) string { return r.Candidate2 }),
	table.Text("winner_doc_id", "the better document, or `tie`", func(r VoteRow) string { return r.Winner }),
	table.Text("annotator", "the person", func(r VoteRow) string { return r.Annotator }),
	table.Text("doc_id_1", "the document whose id sorts first", func(r VoteRow) string { return r.Document1 }),
	table.Text("doc_id_2", "the other document", func(r VoteRow) string { return r.Document2 }),
	table.Text("chosen", "why the page showed the pair: `sample`, `contested` or `narrow`; empty of a file's vote, as the next three",
		func(r VoteRow) string { return r.Chosen }),
	table.Text("shown_first", "the document that was shown first, or on the left", func(r VoteRow) string { return r.ShownFirst }),
	table.Text("note", "the person's", func(r VoteRow) string { return r.Note }),
	table.Time("timestamp", "when the person voted", func(r VoteRow) time.Time { return r.At }),
}
