package results

import (
	"math"
	"time"

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
}

var singleTable = table.Table[SingleRow]{
	table.Text("id", "the run", func(r SingleRow) string { return runCell(r.Phase, r.Index) }),
	table.Text("doc_id", "the document", func(r SingleRow) string { return r.Document }),
	table.Text("model", "`provider:model` asked", func(r SingleRow) string { return r.Model }),
	table.Integer("trial", "from 1", func(r SingleRow) int { return r.Trial }),
	table.Text("criterion", "the criterion", func(r SingleRow) string { return r.Criterion }),
	table.Number("score", "on the evaluation's scale", func(r SingleRow) float64 { return r.Score }),
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
}
