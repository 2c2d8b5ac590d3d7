package results

import (
	"context"
	"database/sql"
	"iter"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// usageColumns sums calls of the alias c into a Usage, in the order of its fields. A call counts as
// possibly charged if it was answered or says so. A reused answer used nothing.
const usageColumns = `count(*) FILTER (WHERE NOT c.cached), count(*) FILTER (WHERE c.cached),
  coalesce(sum(c.input_tokens), 0), coalesce(sum(c.output_tokens), 0),
  coalesce(sum(c.cached_tokens), 0), coalesce(sum(c.cache_write_tokens), 0), coalesce(sum(c.reasoning_tokens), 0),
  count(*) FILTER (WHERE c.input_tokens IS NULL AND (c.class = '' OR c.may_be_billed)),
  coalesce(sum(c.cost_usd), 0.0), coalesce(sum(c.saved_usd), 0.0),
  count(*) FILTER (WHERE c.cost_usd IS NULL AND (c.class = '' OR c.may_be_billed))`

func (u *Usage) fields() []any {
	return []any{
		&u.Calls, &u.FromCache, &u.Input, &u.Output, &u.Cached, &u.Written, &u.Reasoning, &u.Unreported, &u.CostUSD, &u.SavedUSD, &u.Unpriced,
	}
}

// The queries below read runs in the order of the key and look up the rest. So nothing is sorted
// and the first row comes at once.
const (
	fromRuns = `
FROM runs r LEFT JOIN calls c ON c.evaluation = r.evaluation AND c.phase = r.phase AND c.index_ = r.index_
WHERE `
	answerOfRun = `,
  coalesce((SELECT answer FROM responses p WHERE p.evaluation = r.evaluation AND p.id = r.phase || '.' || r.index_), ''),
  coalesce((SELECT answers FROM responses p WHERE p.evaluation = r.evaluation AND p.id = r.phase || '.' || r.index_), ''),
  coalesce((SELECT finish FROM responses p WHERE p.evaluation = r.evaluation AND p.id = r.phase || '.' || r.index_), '')`
	groupRuns = `
GROUP BY r.evaluation, r.phase, r.index_ ORDER BY r.evaluation, r.phase, r.index_`

	fromPairs = `
FROM runs r JOIN pairwise_results p ON p.evaluation = r.evaluation AND p.id = r.phase || '.' || r.index_
WHERE r.evaluation = ? ORDER BY r.phase, r.index_`

	fromScores = `
FROM runs r JOIN single_doc_results s ON s.evaluation = r.evaluation AND s.id = r.phase || '.' || r.index_
WHERE r.evaluation = ? ORDER BY r.phase, r.index_, s.criterion`

	fromOpinions = `
FROM runs r JOIN panel_results p ON p.evaluation = r.evaluation AND p.id = r.phase || '.' || r.index_
WHERE r.evaluation = ? ORDER BY r.phase, r.index_`
)

var (
	runColumns     = "r.phase, r.index_, " + qualified("r", runFields) + ", " + usageColumns
	selectRuns     = "SELECT " + runColumns + fromRuns
	selectAnswers  = "SELECT " + runColumns + answerOfRun + fromRuns
	selectPairs    = "SELECT r.phase, r.index_, " + qualified("p", pairFields) + fromPairs
	selectScores   = "SELECT r.phase, r.index_, s.criterion, " + qualified("s", scoreFields) + fromScores
	selectOpinions = "SELECT r.phase, r.index_, " + qualified("p", opinionFields) + fromOpinions
)

// Runs yields runs by phase and index.
func (r *reader) Runs(ctx context.Context, id eval.ID, states ...eval.State) iter.Seq2[RunRow, error] {
	args := []any{string(id)}
	where := "r.evaluation = ?"
	if len(states) > 0 {
		where += " AND r.state IN (" + placeholders(len(states)) + ")"
		for _, state := range states {
			args = append(args, state.String())
		}
	}
	return rows(ctx, &r.access, scanRunRow, selectRuns+where+groupRuns, args...)
}

// Responses yields the listed runs and the prompts with their answers.
func (r *reader) Responses(ctx context.Context, id eval.ID) iter.Seq2[RunRow, error] {
	return rows(ctx, &r.access, func(row scanner, out *RunRow) error {
		return scanAnswer(row, &out.Run, out.Used.fields()...)
	}, selectAnswers+"r.evaluation = ? AND r.kind IN (?, ?)"+groupRuns, string(id), string(eval.KindRuns), string(eval.KindPrompts))
}

// scanAnswer reads the columns of a run, those in between, and answerOfRun.
func scanAnswer(row scanner, out *record.Run, between ...any) error {
	var answers string
	if err := scanRun(row, out, append(between, &out.Answer, &answers, &out.Finish)...); err != nil {
		return err
	}
	return decodeList(answers, &out.Answers)
}

func scanRunRow(row scanner, out *RunRow) error {
	return scanRun(row, &out.Run, out.Used.fields()...)
}

// scanRun reads the columns of a run, and further columns into more.
func scanRun(row scanner, out *record.Run, more ...any) error {
	var first, second, candidate1, candidate2 string
	var started, ended stamp
	err := row.Scan(append([]any{
		&out.Phase, &out.Index, &out.Generation, (*string)(&out.Kind), &out.Name, &out.Dimension, &out.State, &out.Queue, &out.Judge,
		&out.Model, &out.AnsweredBy, &out.Item, &first, &second, &candidate1, &candidate2, &out.Trial,
		(*string)(&out.Class), &out.Error, &out.Attempts, &started, &ended, &out.Worker,
	}, more...)...)
	out.Documents, out.Candidates = []string{first}, []string{candidate1}
	if out.Kind == eval.KindPairwise || out.Kind == eval.KindRuns {
		out.Documents, out.Candidates = append(out.Documents, second), append(out.Candidates, candidate2)
	}
	out.Started, out.Ended = started.Time, ended.Time
	return err
}

// PairwiseRows yields the verdicts on pairs by phase and index.
func (r *reader) PairwiseRows(ctx context.Context, id eval.ID) iter.Seq2[PairwiseRow, error] {
	return rows(ctx, &r.access, func(row scanner, p *PairwiseRow) error {
		var ended stamp
		var degree sql.NullInt64
		var criteria sql.NullString
		var chances chanceColumns
		err := row.Scan(&p.Phase, &p.Index, &p.Document1, &p.Document2, &p.Model, &p.Trial, &p.Winner, &p.Reason, &ended,
			&p.Item, &p.Order, &p.Judge, &p.AnsweredBy, &p.Candidate1, &p.Candidate2, &degree, &criteria,
			&chances.first, &chances.tie, &chances.second)
		p.Timestamp, p.Degree, p.Chances = ended.Time, int(degree.Int64), chances.read()
		if err != nil {
			return err
		}
		return decodeList(criteria.String, &p.Criteria)
	}, selectPairs, string(id))
}

// SingleRows yields the scores by phase, index and criterion.
func (r *reader) SingleRows(ctx context.Context, id eval.ID) iter.Seq2[SingleRow, error] {
	return rows(ctx, &r.access, func(row scanner, s *SingleRow) error {
		var ended stamp
		err := row.Scan(&s.Phase, &s.Index, &s.Criterion, &s.Document, &s.Model, &s.Trial, &s.Score, &s.Reason, &ended,
			&s.Item, &s.Judge, &s.AnsweredBy, &s.Candidate)
		s.Timestamp = ended.Time
		return err
	}, selectScores, string(id))
}

// PanelRows yields what agents said by phase and index.
func (r *reader) PanelRows(ctx context.Context, id eval.ID) iter.Seq2[PanelRow, error] {
	return rows(ctx, &r.access, func(row scanner, p *PanelRow) error {
		var ended stamp
		err := row.Scan(&p.Phase, &p.Index, &p.Document, &p.Agent, &p.Dimension, &p.Score, &p.Argument, &p.Model, &ended,
			&p.Item, &p.AnsweredBy, &p.Candidate)
		p.Timestamp = ended.Time
		return err
	}, selectOpinions, string(id))
}
