package results

import (
	"context"
	"database/sql"
	"iter"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
)

// usageColumns sums calls of the alias c into a Usage, in the order of its fields. A
// call is possibly charged when it was answered or says so. One that was answered
// before used nothing.
const usageColumns = `count(c.id) - coalesce(sum(c.cached), 0), coalesce(sum(c.cached), 0),
  coalesce(sum(c.input_tokens), 0), coalesce(sum(c.output_tokens), 0),
  coalesce(sum(c.cached_tokens), 0), coalesce(sum(c.reasoning_tokens), 0),
  coalesce(sum(c.input_tokens IS NULL AND (c.class = '' OR c.may_be_billed)), 0),
  coalesce(sum(c.cost_usd), 0.0),
  coalesce(sum(c.cost_usd IS NULL AND (c.class = '' OR c.may_be_billed)), 0)`

func (u *Usage) fields() []any {
	return []any{&u.Calls, &u.FromCache, &u.Input, &u.Output, &u.Cached, &u.Reasoning, &u.Unreported, &u.CostUSD, &u.Unpriced}
}

// The queries below walk runs in the order of its key and look the rest up, so
// that nothing is sorted and the first row comes at once.
const (
	runColumns = `r.phase, r.index_, r.generation, r.kind, r.name, r.dimension, r.state, r.queue, r.judge, r.model, r.answered_by, r.item,
  r.doc_id_1, r.doc_id_2, r.candidate_1, r.candidate_2, r.trial, r.class, r.error, r.attempts,
  r.started_at, r.ended_at, r.worker, ` + usageColumns
	fromRuns = `
FROM runs r LEFT JOIN calls c ON c.evaluation = r.evaluation AND c.phase = r.phase AND c.index_ = r.index_
WHERE `
	selectRuns    = "SELECT " + runColumns + fromRuns
	selectAnswers = "SELECT " + runColumns + `,
  coalesce((SELECT answer FROM responses p WHERE p.evaluation = r.evaluation AND p.id = r.phase || '.' || r.index_), ''),
  coalesce((SELECT finish FROM responses p WHERE p.evaluation = r.evaluation AND p.id = r.phase || '.' || r.index_), '')` + fromRuns
	groupRuns = `
GROUP BY r.evaluation, r.phase, r.index_ ORDER BY r.evaluation, r.phase, r.index_`

	selectPairs = `
SELECT r.phase, r.index_, p.doc_id_1, p.doc_id_2, p.model, p.trial, p.winner_doc_id, p.reason, p.timestamp,
  p.item, p.order_, p.judge, p.answered_by, p.candidate_1, p.candidate_2
FROM runs r JOIN pairwise_results p ON p.evaluation = r.evaluation AND p.id = r.phase || '.' || r.index_
WHERE r.evaluation = ? ORDER BY r.phase, r.index_`

	selectScores = `
SELECT r.phase, r.index_, s.doc_id, s.model, s.trial, s.criterion, s.score, s.reason, s.timestamp,
  s.item, s.judge, s.answered_by, s.candidate
FROM runs r JOIN single_doc_results s ON s.evaluation = r.evaluation AND s.id = r.phase || '.' || r.index_
WHERE r.evaluation = ? ORDER BY r.phase, r.index_, s.criterion`

	selectOpinions = `
SELECT r.phase, r.index_, p.doc_id, p.agent, p.criterion_id, p.score, p.argument, p.model, p.timestamp,
  p.item, p.answered_by, p.candidate
FROM runs r JOIN panel_results p ON p.evaluation = r.evaluation AND p.id = r.phase || '.' || r.index_
WHERE r.evaluation = ? ORDER BY r.phase, r.index_`
)

// Runs yields runs by phase and index.
func (r *reader) Runs(ctx context.Context, id eval.ID, states ...eval.State) iter.Seq2[RunRow, error] {
	args := []any{string(id)}
	where := "r.evaluation = ?"
	if len(states) > 0 {
		where += " AND r.state IN (?" + strings.Repeat(", ?", len(states)-1) + ")"
		for _, state := range states {
			args = append(args, state.String())
		}
	}
	return rows(ctx, r, func(row *sql.Rows, out *RunRow) error { return scanRun(row, out) }, selectRuns+where+groupRuns, args...)
}

// Responses yields the listed runs with their answers.
func (r *reader) Responses(ctx context.Context, id eval.ID) iter.Seq2[RunRow, error] {
	return rows(ctx, r, scanAnswer, selectAnswers+"r.evaluation = ? AND r.kind = ?"+groupRuns, string(id), string(eval.KindRuns))
}

func scanAnswer(row *sql.Rows, out *RunRow) error { return scanRun(row, out, &out.Answer, &out.Finish) }

// scanRun reads runColumns, and more columns where there are.
func scanRun(row *sql.Rows, out *RunRow, more ...any) error {
	var first, second, candidate1, candidate2 string
	var started, ended stamp
	err := row.Scan(slices.Concat([]any{
		&out.Phase, &out.Index, &out.Generation, (*string)(&out.Kind), &out.Name, &out.Dimension, &out.State, &out.Queue, &out.Judge,
		&out.Model, &out.AnsweredBy, &out.Item, &first, &second, &candidate1, &candidate2, &out.Trial,
		(*string)(&out.Class), &out.Error, &out.Attempts, &started, &ended, &out.Worker,
	}, out.Used.fields(), more)...)
	out.Documents, out.Candidates = []string{first}, []string{candidate1}
	if out.Kind == eval.KindPairwise || out.Kind == eval.KindRuns {
		out.Documents, out.Candidates = append(out.Documents, second), append(out.Candidates, candidate2)
	}
	out.Started, out.Ended = started.Time, ended.Time
	return err
}

// PairwiseRows yields the verdicts on pairs by phase and index.
func (r *reader) PairwiseRows(ctx context.Context, id eval.ID) iter.Seq2[PairwiseRow, error] {
	return rows(ctx, r, func(row *sql.Rows, p *PairwiseRow) error {
		var ended stamp
		err := row.Scan(&p.Phase, &p.Index, &p.Document1, &p.Document2, &p.Model, &p.Trial, &p.Winner, &p.Reason, &ended,
			&p.Item, &p.Order, &p.Judge, &p.AnsweredBy, &p.Candidate1, &p.Candidate2)
		p.Timestamp = ended.Time
		return err
	}, selectPairs, string(id))
}

// SingleRows yields the scores by phase, index and criterion.
func (r *reader) SingleRows(ctx context.Context, id eval.ID) iter.Seq2[SingleRow, error] {
	return rows(ctx, r, func(row *sql.Rows, s *SingleRow) error {
		var ended stamp
		err := row.Scan(&s.Phase, &s.Index, &s.Document, &s.Model, &s.Trial, &s.Criterion, &s.Score, &s.Reason, &ended,
			&s.Item, &s.Judge, &s.AnsweredBy, &s.Candidate)
		s.Timestamp = ended.Time
		return err
	}, selectScores, string(id))
}

// PanelRows yields what panels said by phase and index.
func (r *reader) PanelRows(ctx context.Context, id eval.ID) iter.Seq2[PanelRow, error] {
	return rows(ctx, r, func(row *sql.Rows, p *PanelRow) error {
		var ended stamp
		err := row.Scan(&p.Phase, &p.Index, &p.Document, &p.Agent, &p.Dimension, &p.Score, &p.Argument, &p.Model, &ended,
			&p.Item, &p.AnsweredBy, &p.Candidate)
		p.Timestamp = ended.Time
		return err
	}, selectOpinions, string(id))
}
