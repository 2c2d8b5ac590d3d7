package results

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/table"
)

// Names of the tables, which are their files without the endings.
const (
	answersName  = "answers"
	scoresName   = "scores"
	verdictsName = "verdicts"
	callsName    = "calls"
	pairwiseName = "pairwise_results"
	criteriaName = "pairwise_criteria"
	singleName   = "single_doc_results"
	panelName    = "panel_results"
	votesName    = "votes"
)

// Tables returns the tables of every kind of evaluation, without rows.
func Tables() []table.Sheet {
	return []table.Sheet{
		table.Of(answersName, answerTable, table.Rows[answerRow](nil)),
		table.Of(scoresName, scoreTable, table.Rows[SingleRow](nil)),
		table.Of(verdictsName, verdictTable, table.Rows[verdictRow](nil)),
		table.Of(callsName, callTable, table.Rows[record.Call](nil)),
		table.Of(pairwiseName, pairwiseTable, table.Rows[PairwiseRow](nil)),
		table.Of(criteriaName, criteriaTable, table.Rows[criterionRow](nil)),
		table.Of(singleName, singleTable, table.Rows[SingleRow](nil)),
		table.Of(panelName, panelTable, table.Rows[PanelRow](nil)),
		table.Of(votesName, voteTable, table.Rows[VoteRow](nil)),
	}
}

// plain returns the tables that have the same columns for every kind of evaluation.
func plain(ctx context.Context, r Reader, e Evaluation) (sheets []table.Sheet) {
	p := e.Plan
	if slices.ContainsFunc(p.Documents, hasText) || p.Runs != nil || p.Prompts != nil {
		sheets = append(sheets, table.Of(answersName, answerTable, answerRows(ctx, r, e)))
	}
	if p.Single != nil || p.Panel != nil || p.Checks != nil {
		sheets = append(sheets, table.Of(scoresName, scoreTable, scoreRows(ctx, r, e)))
	}
	if p.Pairwise != nil || e.Voted() {
		sheets = append(sheets, table.Of(verdictsName, verdictTable, verdictRows(ctx, r, e)))
	}
	return append(sheets, table.Of(callsName, callTable, r.AllCalls(ctx, e.ID)))
}

// byKind returns the tables of the kinds that an evaluation has.
func byKind(ctx context.Context, r Reader, e Evaluation) (sheets []table.Sheet) {
	if e.Plan.Pairwise != nil {
		sheets = append(sheets, table.Of(pairwiseName, pairwiseTable, pairwiseRows(ctx, r, e)))
		if len(e.Plan.Pairwise.Criteria) > 0 {
			sheets = append(sheets, table.Of(criteriaName, criteriaTable, criterionRows(ctx, r, e)))
		}
	}
	if e.Plan.Single != nil {
		sheets = append(sheets, table.Of(singleName, singleTable, written(e.Plan, r.SingleRows(ctx, e.ID))))
	}
	if e.Plan.Panel != nil {
		sheets = append(sheets, table.Of(panelName, panelTable, r.PanelRows(ctx, e.ID)))
	}
	if e.Voted() {
		sheets = append(sheets, table.Of(votesName, voteTable, r.Votes(ctx, e.ID)))
	}
	return sheets
}

// runCell returns a run's id as tables have it.
func runCell(phase, index int) string { return eval.RunID{Phase: phase, Index: index}.Cell() }

// answerRow is a text that is judged, or the answer of a listed run or a prompt.
type answerRow struct {
	record.Run        // zero, but for its item, documents and candidates, if the text was given
	Question   string // of its item
	Turn       int    // 0: there is no answer
}

// status of an answerRow whose text was given.
const given = "given"

var answerTable = table.Table[answerRow]{
	table.Text("id", "the run that answered; empty where the text was given", func(r answerRow) string {
		if r.State == given {
			return ""
		}
		return runCell(r.Phase, r.Index)
	}),
	table.Text("doc_id", "the document, or the own id of the listed run or prompt",
		func(r answerRow) string { return cmp.Or(r.Name, r.Documents[0]) }),
	table.Text("item", "the item that it answers", func(r answerRow) string { return r.Item }),
	table.Text("question", "the item's question", func(r answerRow) string { return r.Question }),
	table.Text("candidate", "whose text it is; of a listed run or prompt, the model asked",
		func(r answerRow) string { return r.Candidates[0] }),
	table.Text("model", "`provider:model` asked; empty where the text was given", func(r answerRow) string { return r.Model }),
	table.Text("answered_by", "`provider:model` that answered, which may be a fallback", func(r answerRow) string { return r.AnsweredBy }),
	table.Text("status", "`given`, `succeeded` or `failed`", func(r answerRow) string { return r.State }),
	table.Text("class", "of the [failure](errors.md)", func(r answerRow) string { return string(r.Class) }),
	table.Positive("turn", "from 1; above it only where a prompt has several answers; missing without an answer",
		func(r answerRow) int { return r.Turn }),
	table.Text("answer", "the text", func(r answerRow) string { return r.Answer }),
	table.Text("finish", "`truncated` where the model could write no more", func(r answerRow) string { return r.Finish }),
	table.Time("timestamp", "when the run ended", func(r answerRow) time.Time { return r.Ended }),
}

// hasText reports whether the text of a document is known.
func hasText(d eval.Document) bool { return d.Hash != "" }

// answerRows yields the judged documents whose text is known, in the order of the plan, and then the answers of listed
// runs and prompts.
func answerRows(ctx context.Context, r Reader, e Evaluation) iter.Seq2[answerRow, error] {
	return func(yield func(answerRow, error) bool) {
		for some := range slices.Chunk(e.Plan.Documents, textsAtOnce) {
			var hashes []string
			for _, d := range some {
				if hasText(d) {
					hashes = append(hashes, d.Hash)
				}
			}
			texts, err := r.Texts(ctx, hashes)
			if err != nil {
				yield(answerRow{}, err)
				return
			}

			for _, d := range some {
				if !hasText(d) {
					continue
				}
				item := e.Plan.Items[d.Item]
				run := record.Run{
					State: given, Item: item.ID, Documents: []string{d.ID}, Candidates: []string{d.Candidate}, Answer: d.Readable(texts[d.Hash]),
				}
				if !yield(answerRow{run, item.Question, 1}, nil) {
					return
				}
			}
		}

		if e.Plan.Runs != nil || e.Plan.Prompts != nil {
			listedAnswers(ctx, r, e, yield)
		}
	}
}

// listedAnswers yields the answers of listed runs and prompts.
func listedAnswers(ctx context.Context, r Reader, e Evaluation, yield func(answerRow, error) bool) {
	questions := map[string]string{}
	for _, item := range e.Plan.Items {
		questions[item.ID] = item.Question
	}

	for run, err := range r.Responses(ctx, e.ID) {
		if err != nil {
			yield(answerRow{}, err)
			return
		}
		row := answerRow{run.Run, questions[run.Item], 0}
		row.Candidates = []string{run.Model}
		texts := run.Answers
		if texts == nil && run.State == eval.StateSucceeded.String() {
			texts = []string{run.Answer}
		}

		if len(texts) == 0 && !yield(row, nil) {
			return
		}
		for k, text := range texts {
			row.Turn, row.Answer = k+1, text
			if !yield(row, nil) {
				return
			}
		}
	}
}

var scoreTable = table.Table[SingleRow]{
	table.Text("id", "the run; empty of a check", func(r SingleRow) string {
		if r.Phase == noRun {
			return ""
		}
		return runCell(r.Phase, r.Index)
	}),
	table.Text("item", "the item", func(r SingleRow) string { return r.Item }),
	table.Text("candidate", "whose document it is", func(r SingleRow) string { return r.Candidate }),
	table.Text("doc_id", "the document", func(r SingleRow) string { return r.Document }),
	table.Text("judge", "the judge, or the agent of a panel; `check` of a check", func(r SingleRow) string { return r.Judge }),
	table.Text("criterion", "the criterion, the text of one of a rubric, the dimension of a panel, or the check",
		func(r SingleRow) string { return r.Criterion }),
	table.Number("score", "on the scale of the evaluation; of a check, or of a criterion of a rubric, 1 if the text passes, otherwise 0",
		func(r SingleRow) float64 { return r.Score }),
	table.Text("reason", "the judge's, the agent's argument, or why the text does not pass", func(r SingleRow) string { return r.Reason }),
	table.Text("model", "`provider:model` asked; empty of a check", func(r SingleRow) string { return r.Model }),
	table.Text("answered_by", "`provider:model` that answered, which may be a fallback", func(r SingleRow) string { return r.AnsweredBy }),
	table.Positive("trial", "from 1; missing of a panel or a check, which have no trials", func(r SingleRow) int { return r.Trial }),
	table.Time("timestamp", "when the run ended; missing of a check", func(r SingleRow) time.Time { return r.Timestamp }),
	table.Number("points", "what the criterion of a rubric is worth; missing without rubrics", func(r SingleRow) float64 {
		if r.Points == 0 {
			return math.NaN()
		}
		return r.Points
	}),
}

// noRun is the phase of a score that no run has given.
const noRun = -1

// scoreRows yields the scores of judges, then those of agents, and then those of checks. Failed runs have none.
func scoreRows(ctx context.Context, r Reader, e Evaluation) iter.Seq2[SingleRow, error] {
	return func(yield func(SingleRow, error) bool) {
		for row, err := range written(e.Plan, r.SingleRows(ctx, e.ID)) {
			if !yield(row, err) || err != nil {
				return
			}
		}
		for row, err := range r.PanelRows(ctx, e.ID) {
			if err == nil && row.Score == nil {
				continue
			}
			if !yield(row.asScore(), err) || err != nil {
				return
			}
		}
		for _, d := range e.Plan.Documents {
			for row := range checkRows(e.Plan, d) {
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

// checkRows yields the scores of a document's text by the checks of its evaluation.
func checkRows(plan *eval.Evaluation, d eval.Document) iter.Seq[SingleRow] {
	return func(yield func(SingleRow) bool) {
		for k, check := range plan.Checks {
			row := SingleRow{
				Phase: noRun, Document: d.ID, Criterion: check.Name, Score: 1, Item: plan.Items[d.Item].ID, Judge: "check",
				Candidate: d.Candidate,
			}
			for _, failed := range d.Failed {
				if failed.Check == k {
					row.Score, row.Reason = 0, failed.Why
				}
			}
			if !yield(row) {
				return
			}
		}
	}
}

// asScore returns the agent's score as that of a judge on a criterion.
func (r PanelRow) asScore() SingleRow {
	score := math.NaN()
	if r.Score != nil {
		score = *r.Score
	}
	return SingleRow{
		Phase: r.Phase, Index: r.Index, Document: r.Document, Model: r.Model, Criterion: r.Dimension, Score: score,
		Reason: r.Argument, Timestamp: r.Timestamp, Item: r.Item, Judge: r.Agent, AnsweredBy: r.AnsweredBy, Candidate: r.Candidate,
	}
}

// verdictRow is the verdict of a judge or a person on a pair.
type verdictRow struct {
	PairwiseRow        // of a person: without phase, index, model, trial, order and time
	ID          string // of the run
	By          string
}

// Who gave a verdict.
const (
	byJudge  = "judge"
	byPerson = "person"
)

var verdictTable = table.Table[verdictRow]{
	table.Text("id", "the run; empty of a person's vote", func(r verdictRow) string { return r.ID }),
	table.Text("item", "the item", func(r verdictRow) string { return r.Item }),
	table.Text("candidate_1", "whose text was shown first", func(r verdictRow) string { return r.Candidate1 }),
	table.Text("candidate_2", "whose text was shown second", func(r verdictRow) string { return r.Candidate2 }),
	table.Text("doc_id_1", "the document shown first; of a vote, the one whose id sorts first",
		func(r verdictRow) string { return r.Document1 }),
	table.Text("doc_id_2", "the other document", func(r verdictRow) string { return r.Document2 }),
	table.Text("result", "`first`, `second` or `tie`: which text is better", verdictRow.result),
	table.Text("winner", "the candidate whose text is better; empty: a tie", func(r verdictRow) string {
		return map[string]string{"first": r.Candidate1, "second": r.Candidate2}[r.result()]
	}),
	table.Text("by", "`judge`, or `person` of a vote", func(r verdictRow) string { return r.By }),
	table.Text("judge", "the judge, or the annotator", func(r verdictRow) string { return r.Judge }),
	table.Text("model", "`provider:model` asked; empty of a person", func(r verdictRow) string { return r.Model }),
	table.Text("answered_by", "`provider:model` that answered; empty: no model was asked, because the texts are "+
		"identical or one fails a gate", func(r verdictRow) string { return r.AnsweredBy }),
	table.Positive("trial", "from 1; missing of a person", func(r verdictRow) int { return r.Trial }),
	table.Text("order", "`forward`: the document shown first sorts first; `reverse`; empty of a person",
		func(r verdictRow) string { return r.Order }),
	table.Text("reason", "the judge's; `identical` or `gate: CHECK`: no model was asked", func(r verdictRow) string { return r.Reason }),
	table.Time("timestamp", "when the run ended; missing of a person", func(r verdictRow) time.Time { return r.Timestamp }),
}

// pairwiseRows yields the verdicts of judges, without an order where it was not recorded.
func pairwiseRows(ctx context.Context, r Reader, e Evaluation) iter.Seq2[PairwiseRow, error] {
	unordered := e.Plan.Pairwise != nil && e.Plan.Pairwise.Order == eval.OrderUnknown
	return func(yield func(PairwiseRow, error) bool) {
		for row, err := range r.PairwiseRows(ctx, e.ID) {
			if unordered {
				row.Order = ""
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

func (r verdictRow) result() string {
	switch r.Winner {
	case eval.Tie:
		return "tie"
	case r.Document1:
		return "first"
	}
	return "second"
}

// verdictRows yields the verdicts of judges, and then people's votes.
func verdictRows(ctx context.Context, r Reader, e Evaluation) iter.Seq2[verdictRow, error] {
	return func(yield func(verdictRow, error) bool) {
		for row, err := range pairwiseRows(ctx, r, e) {
			if !yield(verdictRow{row, runCell(row.Phase, row.Index), byJudge}, err) || err != nil {
				return
			}
		}
		for vote, err := range r.Votes(ctx, e.ID) {
			row := PairwiseRow{
				Document1: vote.Document1, Document2: vote.Document2, Winner: vote.Winner, Item: vote.Item, Judge: vote.Annotator,
				Candidate1: vote.Candidate1, Candidate2: vote.Candidate2,
			}
			if !yield(verdictRow{row, "", byPerson}, err) || err != nil {
				return
			}
		}
	}
}

var callTable = table.Table[record.Call]{
	table.Text("id", "the run that it was made for", func(c record.Call) string { return runCell(c.Phase, c.Index) }),
	table.Text("call", "its own id", func(c record.Call) string { return c.ID }),
	table.Text("stage", "what it asked for: `verdict`, `answer`, `grounded`, `json` or `repair`",
		func(c record.Call) string { return c.Stage }),
	table.Text("model", "`provider:model` called", func(c record.Call) string { return c.Model }),
	table.Integer("attempt", "of the run, from 1", func(c record.Call) int { return c.Attempt }),
	table.Boolean("cached", "taken from an identical earlier call: nothing was sent or charged", func(c record.Call) bool { return c.Cached }),
	table.Positive("status", "of HTTP; missing without a response", func(c record.Call) int { return c.Status }),
	table.Text("class", "of the [failure](errors.md); empty: it was answered", func(c record.Call) string { return string(c.Class) }),
	table.Text("error", "in the provider's words", func(c record.Call) string { return c.Error }),
	table.Known("input_tokens", "missing where the provider reported none", tokensOf(func(c record.Call) int64 { return c.Usage.Input })),
	table.Known("output_tokens", "likewise", tokensOf(func(c record.Call) int64 { return c.Usage.Output })),
	table.Known("cached_tokens", "likewise: input tokens that the provider read from its cache",
		tokensOf(func(c record.Call) int64 { return c.Usage.Cached })),
	table.Known("cache_write_tokens", "likewise: input tokens that the provider wrote to its cache",
		tokensOf(func(c record.Call) int64 { return c.Usage.Written })),
	table.Known("reasoning_tokens", "likewise: output tokens spent on reasoning",
		tokensOf(func(c record.Call) int64 { return c.Usage.Reasoning })),
	table.Number("cost_usd", "missing where it is unknown", func(c record.Call) float64 {
		if c.Usage.CostUSD == nil {
			return math.NaN()
		}
		return *c.Usage.CostUSD
	}),
	table.Number("saved_usd", "what the provider's cache saved of the cost; below 0 where writing to it cost more, missing where unknown",
		func(c record.Call) float64 {
			if usd, known := c.Saved(); known {
				return usd
			}
			return math.NaN()
		}),
	table.Number("wait_s", "seconds from `asked_at` to `started_at`", func(c record.Call) float64 { return seconds(c.Asked, c.Started) }),
	table.Number("latency_s", "seconds from `started_at` to `ended_at`", func(c record.Call) float64 { return seconds(c.Started, c.Ended) }),
	table.Text("finish", "why the answer ended", func(c record.Call) string { return c.Finish }),
	table.Text("worker", "the worker that made it", func(c record.Call) string { return c.Worker }),
	table.Text("account", "the account where it was made, if the provider has several", func(c record.Call) string { return c.Account }),
	table.Time("asked_at", "when it asked to be admitted", func(c record.Call) time.Time { return c.Asked }),
	table.Time("started_at", "when the request was sent; missing of a cached one", func(c record.Call) time.Time { return c.Started }),
	table.Time("ended_at", "when it ended", func(c record.Call) time.Time { return c.Ended }),
}

// tokensOf returns a count of tokens that is unknown for calls without usage.
func tokensOf(count func(record.Call) int64) func(record.Call) (int, bool) {
	return func(c record.Call) (int, bool) { return int(count(c)), c.Usage.Reported }
}

// seconds returns the time from one moment to another, as exact as the moments are stored; NaN if one is unknown.
func seconds(from, to time.Time) float64 {
	if from.IsZero() || to.IsZero() {
		return math.NaN()
	}
	return to.Sub(from).Round(time.Millisecond).Seconds()
}
