package results

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
)

// appender holds the statements of one transaction of Append.
type appender struct {
	evaluation  string
	run         *sql.Stmt
	clearPair   *sql.Stmt
	clearSingle *sql.Stmt
	pair        *sql.Stmt
	single      *sql.Stmt
	clearAnswer *sql.Stmt
	clearEvents *sql.Stmt
	event       *sql.Stmt
	answer      *sql.Stmt
	clearPanel  *sql.Stmt
	panel       *sql.Stmt
	call        *sql.Stmt
}

const (
	insertRun = `
INSERT INTO runs (evaluation, phase, index_, generation, kind, name, dimension, state, queue, judge, model, answered_by, item,
  doc_id_1, doc_id_2, candidate_1, candidate_2, trial, class, error, attempts, started_at, ended_at, worker,
  rate_limit_waits, rate_limit_fallbacks, context_fallbacks)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (evaluation, phase, index_) DO UPDATE SET
  generation = excluded.generation, kind = excluded.kind, name = excluded.name, dimension = excluded.dimension, state = excluded.state, queue = excluded.queue,
  judge = excluded.judge, model = excluded.model, answered_by = excluded.answered_by, item = excluded.item,
  doc_id_1 = excluded.doc_id_1, doc_id_2 = excluded.doc_id_2,
  candidate_1 = excluded.candidate_1, candidate_2 = excluded.candidate_2, trial = excluded.trial,
  class = excluded.class, error = excluded.error, attempts = excluded.attempts,
  started_at = excluded.started_at, ended_at = excluded.ended_at, worker = excluded.worker,
  rate_limit_waits = excluded.rate_limit_waits, rate_limit_fallbacks = excluded.rate_limit_fallbacks,
  context_fallbacks = excluded.context_fallbacks
WHERE excluded.generation > runs.generation
  OR (excluded.generation = runs.generation AND excluded.state = 'succeeded' AND runs.state = 'failed')`

	insertPair = `
INSERT INTO pairwise_results (evaluation, id, doc_id_1, doc_id_2, model, trial, winner_doc_id, reason, timestamp,
  item, order_, judge, answered_by, candidate_1, candidate_2)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	insertSingle = `
INSERT INTO single_doc_results (evaluation, id, doc_id, model, trial, criterion, score, reason, timestamp,
  item, judge, answered_by, candidate)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (evaluation, id, criterion) DO UPDATE SET score = excluded.score, reason = excluded.reason`

	insertAnswer = `
INSERT INTO responses (evaluation, id, run_id, model, answered_by, file_a, file_b, answer, finish, timestamp)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	insertPanel = `
INSERT INTO panel_results (evaluation, id, doc_id, agent, criterion_id, score, argument, model, timestamp, item, answered_by, candidate)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	insertCall = `
INSERT INTO calls (evaluation, id, phase, index_, generation, stage, model, attempt, asked_at, started_at, ended_at,
  bound_by, status, class, error, may_be_billed, request_id,
  input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_usd, most_usd, price, text, finish,
  grounding, reasoning, worker, key, cached)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (evaluation, id) DO UPDATE SET
  phase = excluded.phase, index_ = excluded.index_, generation = excluded.generation, stage = excluded.stage,
  model = excluded.model, attempt = excluded.attempt, asked_at = excluded.asked_at,
  started_at = excluded.started_at, ended_at = excluded.ended_at, bound_by = excluded.bound_by,
  status = excluded.status, class = excluded.class, error = excluded.error,
  may_be_billed = excluded.may_be_billed, request_id = excluded.request_id,
  input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
  cached_tokens = excluded.cached_tokens, reasoning_tokens = excluded.reasoning_tokens,
  cost_usd = excluded.cost_usd, most_usd = excluded.most_usd, price = excluded.price, text = excluded.text,
  finish = excluded.finish, grounding = excluded.grounding, reasoning = excluded.reasoning, worker = excluded.worker,
  key = excluded.key, cached = excluded.cached`
)

func newAppender(ctx context.Context, tx *sql.Tx, id eval.ID) (*appender, error) {
	a := &appender{evaluation: string(id)}
	for _, prepare := range []struct {
		into  **sql.Stmt
		query string
	}{
		{&a.run, insertRun},
		{&a.clearPair, "DELETE FROM pairwise_results WHERE evaluation = ? AND id = ?"},
		{&a.clearSingle, "DELETE FROM single_doc_results WHERE evaluation = ? AND id = ?"},
		{&a.pair, insertPair},
		{&a.single, insertSingle},
		{&a.clearAnswer, "DELETE FROM responses WHERE evaluation = ? AND id = ?"},
		{&a.answer, insertAnswer},
		{&a.clearPanel, "DELETE FROM panel_results WHERE evaluation = ? AND id = ?"},
		{&a.panel, insertPanel},
		{&a.clearEvents, "DELETE FROM events WHERE evaluation = ? AND run = ?"},
		{&a.event, "INSERT INTO events (evaluation, run, name, metadata, created_at) VALUES (?, ?, ?, ?, ?)"},
		{&a.call, insertCall},
	} {
		statement, err := tx.PrepareContext(ctx, prepare.query) //nolint:sqlclosecheck // closed with tx
		if err != nil {
			return nil, err
		}
		*prepare.into = statement
	}
	return a, nil
}

func (a *appender) entry(ctx context.Context, e record.Entry) error {
	if e.Run != nil {
		if err := a.putRun(ctx, e.Run); err != nil {
			return err
		}
	}
	for i := range e.Calls {
		if err := a.putCall(ctx, &e.Calls[i]); err != nil {
			return err
		}
	}
	return nil
}

// putRun stores the run and, when its row is new or gave way, what came of it in
// place of any earlier one.
func (a *appender) putRun(ctx context.Context, r *record.Run) error {
	first, second := pair(r.Documents)
	candidate1, candidate2 := pair(r.Candidates)
	result, err := a.run.ExecContext(ctx, a.evaluation, r.Phase, r.Index, r.Generation, string(r.Kind), r.Name, r.Dimension, r.State,
		r.Queue, r.Judge, r.Model, r.AnsweredBy, r.Item, first, second, candidate1, candidate2, r.Trial,
		string(r.Class), r.Error, r.Attempts, stamp{r.Started}, stamp{r.Ended}, r.Worker,
		r.RateLimitWaits, r.RateLimitFallbacks, r.ContextFallbacks)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return err
	}
	id := r.RunID(eval.ID(a.evaluation)).Short()
	for _, clear := range []*sql.Stmt{a.clearOf(r.Kind), a.clearEvents} {
		if _, err := clear.ExecContext(ctx, a.evaluation, id); err != nil {
			return err
		}
	}
	if err := a.putEvents(ctx, id, r.Fell); err != nil {
		return err
	}
	if r.Kind == eval.KindPanel && r.State != eval.StateCancelled.String() {
		return a.putOpinion(ctx, id, r, first, candidate1)
	}
	if r.State != eval.StateSucceeded.String() {
		return nil
	}
	switch r.Kind {
	case eval.KindRuns:
		_, err := a.answer.ExecContext(ctx, a.evaluation, id, r.Name, r.Model, r.AnsweredBy, first, second, r.Answer, r.Finish, stamp{r.Ended})
		return err
	case eval.KindPairwise:
		order := OrderForward
		if first > second {
			order = OrderReverse
		}
		_, err := a.pair.ExecContext(ctx, a.evaluation, id, first, second, r.Model, r.Trial, r.Winner, r.Reason,
			stamp{r.Ended}, r.Item, order, r.Judge, r.AnsweredBy, candidate1, candidate2)
		return err
	}
	for _, score := range r.Scores {
		_, err := a.single.ExecContext(ctx, a.evaluation, id, first, r.Model, r.Trial, score.Criterion, score.Score,
			score.Reason, stamp{r.Ended}, r.Item, r.Judge, r.AnsweredBy, candidate1)
		if err != nil {
			return err
		}
	}
	return nil
}

// clearOf removes what came of a run of a kind, which is the same for good.
func (a *appender) clearOf(kind eval.Kind) *sql.Stmt {
	switch kind {
	case eval.KindPairwise:
		return a.clearPair
	case eval.KindPanel:
		return a.clearPanel
	case eval.KindRuns:
		return a.clearAnswer
	}
	return a.clearSingle
}

// putOpinion stores what came of a panel's run: a score with its argument, or none
// with what stands in its place.
func (a *appender) putOpinion(ctx context.Context, id string, r *record.Run, document, candidate string) error {
	var score any // NULL: the run failed
	argument := r.Reason
	for _, s := range r.Scores { // one
		score, argument = s.Score, s.Reason
	}
	_, err := a.panel.ExecContext(ctx, a.evaluation, id, document, r.Judge, r.Dimension, score, argument, r.Model,
		stamp{r.Ended}, r.Item, r.AnsweredBy, candidate)
	return err
}

// putEvents stores a run's fallbacks.
func (a *appender) putEvents(ctx context.Context, run string, fell []record.Fell) error {
	for _, f := range fell {
		metadata, err := f.Metadata(run)
		if err != nil {
			return err
		}
		if _, err := a.event.ExecContext(ctx, a.evaluation, run, f.Event, string(metadata), stamp{f.At}); err != nil {
			return err
		}
	}
	return nil
}

func (a *appender) putCall(ctx context.Context, c *record.Call) error {
	var input, output, cached, reasoning any // NULL: not reported
	if u := c.Usage; u.Reported {
		input, output, cached, reasoning = u.Input, u.Output, u.Cached, u.Reasoning
	}
	price, err := optionalJSON(c.Price)
	if err != nil {
		return err
	}
	grounding, err := optionalJSON(c.Grounding)
	if err != nil {
		return err
	}
	_, err = a.call.ExecContext(ctx, a.evaluation, c.ID, c.Phase, c.Index, c.Generation, c.Stage, c.Model,
		c.Attempt, stamp{c.Asked}, stamp{c.Started}, stamp{c.Ended}, c.BoundBy, c.Status, string(c.Class), c.Error,
		c.MaybeBill, c.RequestID, input, output, cached, reasoning, c.Usage.CostUSD, c.MostUSD, price, c.Text, c.Finish,
		grounding, c.Reasoning, c.Worker, c.Key, c.Cached)
	return err
}

// optionalJSON is a column's value: v as JSON, or NULL.
func optionalJSON[T any](v *T) (any, error) {
	if v == nil {
		return nil, nil //nolint:nilnil // NULL
	}
	raw, err := json.Marshal(v)
	return string(raw), err
}

// pair is the first and second of one or two values.
func pair(values []string) (first, second string) {
	if len(values) > 0 {
		first = values[0]
	}
	if len(values) > 1 {
		second = values[1]
	}
	return first, second
}
