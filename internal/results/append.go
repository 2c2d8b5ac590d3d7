package results

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

// The columns of rows other than their keys, in the order in which they are written and read.
const (
	runFields = "generation, kind, name, dimension, state, queue, judge, model, answered_by, item, " +
		"doc_id_1, doc_id_2, candidate_1, candidate_2, trial, class, error, attempts, started_at, ended_at, worker"
	runWaits = "rate_limit_waits, rate_limit_fallbacks, context_fallbacks" // after runFields

	callFields = "phase, index_, generation, stage, model, attempt, asked_at, started_at, ended_at, " +
		"bound_by, status, class, error, may_be_billed, request_id, " +
		"input_tokens, output_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, cost_usd, saved_usd, most_usd, price, text, " +
		"finish, grounding, reasoning, worker, key, cached, dropped, account"

	pairFields = "doc_id_1, doc_id_2, model, trial, winner_doc_id, reason, timestamp, " +
		"item, order_, judge, answered_by, candidate_1, candidate_2, degree, criteria, p_doc_1, p_tie, p_doc_2"

	scoreFields = "doc_id, model, trial, score, reason, timestamp, item, judge, answered_by, candidate"

	answerFields = "run_id, model, answered_by, file_a, file_b, answer, answers, finish, timestamp"

	opinionFields = "doc_id, agent, criterion_id, score, argument, model, timestamp, item, answered_by, candidate"
)

var (
	addRun = insert("runs", "evaluation, phase, index_, "+runFields+", "+runWaits) + " ON CONFLICT (evaluation, phase, index_) DO NOTHING"
	putRun = upsert("runs", "evaluation, phase, index_", runFields+", "+runWaits) + `
WHERE excluded.generation > runs.generation
  OR (excluded.generation = runs.generation AND excluded.state = 'succeeded' AND runs.state = 'failed')`
	addCall    = insert("calls", "evaluation, id, "+callFields) + " ON CONFLICT (evaluation, id) DO NOTHING"
	putCall    = upsert("calls", "evaluation, id", callFields)
	putPair    = upsert("pairwise_results", "evaluation, id", pairFields)
	putScore   = upsert("single_doc_results", "evaluation, id, criterion", scoreFields)
	putAnswer  = upsert("responses", "evaluation, id", answerFields)
	putOpinion = upsert("panel_results", "evaluation, id", opinionFields)
	addEvent   = insert("events", "evaluation, run, name, metadata, created_at")
	addJob     = `
INSERT INTO events (evaluation, name, metadata, created_at)
SELECT e.id, '` + eventJob + `', ?, ? FROM evaluations e WHERE e.id = ? AND NOT EXISTS (
	SELECT 1 FROM events v WHERE v.evaluation = e.id AND v.run = '' AND v.name = '` + eventJob + `' AND v.metadata = ?)`
)

// addNamed stores an eventNamed once, and at most mostNamed of an evaluation.
var addNamed = `
INSERT INTO events (evaluation, name, metadata, created_at)
SELECT e.id, '` + eventNamed + `', ?, ? FROM evaluations e WHERE e.id = ? AND NOT EXISTS (
	SELECT 1 FROM events v WHERE v.evaluation = e.id AND v.run = '' AND v.name = '` + eventNamed + `' AND v.metadata = ?)
AND (SELECT count(*) FROM events v WHERE v.evaluation = e.id AND v.run = '' AND v.name = '` + eventNamed + `') < ` + strconv.Itoa(mostNamed)

// listed returns the column value of a list; nil (NULL) if it is empty.
func listed[T any](list []T) *[]T {
	if len(list) == 0 {
		return nil
	}
	return &list
}

// Append stores entries of an evaluation, and updates its totals.
func (s *store) Append(ctx context.Context, id eval.ID, entries []record.Entry) error {
	return s.transact(ctx, "store results of "+string(id), func(t *transaction) error {
		if err := t.lock(ctx, id); err != nil {
			return err
		}

		// Two round trips to the database, however many entries, if none of their rows exists
		// yet: a run's outcome is stored only if its row is new or was replaced.
		runs, calls, err := t.putRows(ctx, id, entries)
		if err != nil {
			return err
		}

		a, sums := appender{evaluation: string(id)}, newTotals()
		for _, r := range runs {
			if !r.stored {
				continue
			}
			if r.before != nil {
				sums.run(r.before, -1)
				a.clear(r.row)
			}
			sums.run(r.row, 1)
			if err := a.outcome(r.row); err != nil {
				return err
			}
		}

		for _, c := range calls {
			if !c.stored {
				continue
			}
			if c.before != nil {
				sums.call(c.before, -1)
			}
			sums.call(c.row, 1)
		}

		for _, entry := range entries {
			if err := a.job(entry.Job); err != nil {
				return err
			}
		}
		if err := a.named(calls); err != nil {
			return err
		}

		sums.put(&a)
		_, err = t.send(ctx, t, a.statements)
		return err
	})
}

// put is a row to be stored.
type put[T any] struct {
	row    *T
	add    statement
	before *T   // the existing row with its key; nil: none
	stored bool // it is new, or replaced the existing row
}

func (t *transaction) putRows(
	ctx context.Context, id eval.ID, entries []record.Entry,
) (runs []put[record.Run], calls []put[record.Call], err error) {
	for _, entry := range entries {
		if r := entry.Run; r != nil {
			runs = append(runs, put[record.Run]{row: r, add: statement{addRun, runArgs(id, r)}})
		}
		for i := range entry.Calls {
			args, err := callArgs(id, &entry.Calls[i])
			if err != nil {
				return nil, nil, err
			}
			calls = append(calls, put[record.Call]{row: &entry.Calls[i], add: statement{addCall, args}})
		}
	}

	statements := make([]statement, 0, len(runs)+len(calls))
	for _, r := range runs {
		statements = append(statements, r.add)
	}
	for _, c := range calls {
		statements = append(statements, c.add)
	}
	changed, err := t.send(ctx, t, statements)
	if err != nil {
		return nil, nil, err
	}

	for i := range runs {
		runs[i].stored = changed[i] > 0
	}
	for i := range calls {
		calls[i].stored = changed[len(runs)+i] > 0
	}
	if err := t.replaceRuns(ctx, id, runs); err != nil {
		return nil, nil, err
	}
	return runs, calls, t.replaceCalls(ctx, id, calls)
}

// replaceRuns overwrites the existing rows of the runs, if they may be overwritten. It reads each
// row by its whole key: given a list of keys, PostgreSQL scans all rows of the evaluation while it
// has no statistics of a young table.
func (t *transaction) replaceRuns(ctx context.Context, id eval.ID, runs []put[record.Run]) error {
	type key struct{ phase, index int }
	standing := map[key]*record.Run{}
	var again []*put[record.Run]
	var statements []statement
	for i := range runs {
		r := &runs[i]
		if r.stored {
			continue
		}
		again, statements = append(again, r), append(statements, statement{putRun, r.add.args})
		at := key{r.row.Phase, r.row.Index}
		if standing[at] != nil {
			continue
		}
		standing[at] = new(record.Run)
		if err := scanCounted(t.one(ctx, selectCounted, string(id), at.phase, at.index), standing[at]); err != nil {
			return err
		}
	}

	changed, err := t.send(ctx, t, statements)
	if err != nil {
		return err
	}

	for i, r := range again {
		if changed[i] > 0 {
			at := key{r.row.Phase, r.row.Index}
			r.stored, r.before, standing[at] = true, standing[at], r.row
		}
	}

	return nil
}

// replaceCalls overwrites the existing rows of the calls. That a job was cancelled replaces no answer of it: after Redis has
// lost data, the worker that cancels a job need not know that another has fetched its answer.
func (t *transaction) replaceCalls(ctx context.Context, id eval.ID, calls []put[record.Call]) error {
	standing := map[string]*record.Call{}
	var statements []statement
	for i := range calls {
		c := &calls[i]
		if c.stored {
			continue
		}
		before := standing[c.row.ID]
		if before == nil {
			before = new(record.Call)
			if err := scanCall(t.one(ctx, selectCall, string(id), c.row.ID), before); err != nil {
				return err
			}
		}
		if before.Class == "" && c.row.Class == providers.Cancelled {
			standing[c.row.ID] = before
			continue
		}

		statements = append(statements, statement{putCall, c.add.args})
		c.stored, c.before, standing[c.row.ID] = true, before, c.row
	}

	_, err := t.send(ctx, t, statements)
	return err
}

const selectCounted = "SELECT phase, index_, state, class, model, answered_by, ended_at, " + runWaits +
	" FROM runs WHERE evaluation = ? AND phase = ? AND index_ = ?"

func scanCounted(row scanner, r *record.Run) error {
	var ended stamp
	err := row.Scan(&r.Phase, &r.Index, &r.State, (*string)(&r.Class), &r.Model, &r.AnsweredBy, &ended,
		&r.RateLimitWaits, &r.RateLimitFallbacks, &r.ContextFallbacks)
	r.Ended = ended.Time
	return err
}

// appender collects the statements that store entries.
type appender struct {
	evaluation string
	statements []statement
}

func (a *appender) add(query string, args ...any) {
	a.statements = append(a.statements, statement{query, args})
}

// runArgs returns the arguments of addRun and putRun.
func runArgs(id eval.ID, r *record.Run) []any {
	first, second := pair(r.Documents)
	candidate1, candidate2 := pair(r.Candidates)
	return []any{
		string(id), r.Phase, r.Index, r.Generation, string(r.Kind), r.Name, r.Dimension, r.State,
		r.Queue, r.Judge, r.Model, r.AnsweredBy, r.Item, first, second, candidate1, candidate2, r.Trial,
		string(r.Class), r.Error, r.Attempts, stamp{r.Started}, stamp{r.Ended}, r.Worker,
		r.RateLimitWaits, r.RateLimitFallbacks, r.ContextFallbacks,
	}
}

// job adds the event that a job was submitted, unless it is stored already or j is nil.
func (a *appender) job(j *record.Job) error {
	if j == nil {
		return nil
	}
	metadata, err := json.Marshal(j)
	if err != nil {
		return err
	}
	a.add(addJob, string(metadata), stamp{j.Call.Started}, a.evaluation, string(metadata))
	return nil
}

// mostNamed bounds how many names of models are stored of an evaluation.
const mostNamed = 100

// namedModel is the metadata of eventNamed: a model, and what its provider called the one that answered.
type namedModel struct {
	Model string `json:"model"`
	Named string `json:"named"`
}

// named adds the events that providers named models, those that are not stored already.
func (a *appender) named(calls []put[record.Call]) error {
	seen := map[namedModel]bool{}
	for _, c := range calls {
		one := namedModel{c.row.Model, c.row.Named}
		if !c.stored || one.Named == "" || seen[one] {
			continue
		}
		seen[one] = true
		metadata, err := json.Marshal(one)
		if err != nil {
			return err
		}
		a.add(addNamed, string(metadata), stamp{c.row.Ended}, a.evaluation, string(metadata))
	}
	return nil
}

// clear removes a run's earlier outcome; its kind never changes.
func (a *appender) clear(r *record.Run) {
	id := r.RunID(eval.ID(a.evaluation)).Short()
	a.add("DELETE FROM "+outcomesOf(r.Kind).table+" WHERE evaluation = ? AND id = ?", a.evaluation, id)
	a.add("DELETE FROM events WHERE evaluation = ? AND run = ?", a.evaluation, id)
}

func (a *appender) outcome(r *record.Run) error {
	first, second := pair(r.Documents)
	candidate1, candidate2 := pair(r.Candidates)
	id := r.RunID(eval.ID(a.evaluation)).Short()
	for _, f := range r.Fell {
		metadata, err := f.Metadata(id)
		if err != nil {
			return err
		}
		a.add(addEvent, a.evaluation, id, f.Event, string(metadata), stamp{f.At})
	}

	ended := stamp{r.Ended}
	switch {
	case r.Kind == eval.KindPanel && r.State != eval.StateCancelled.String():
		score, argument := scoreOf(r)
		a.add(putOpinion, a.evaluation, id, first, r.Judge, r.Dimension, score, argument, r.Model, ended, r.Item, r.AnsweredBy, candidate1)
	case r.State != eval.StateSucceeded.String():
	case r.Kind == eval.KindRuns || r.Kind == eval.KindPrompts:
		answers, err := optionalJSON(listed(r.Answers))
		if err != nil {
			return err
		}
		a.add(putAnswer, a.evaluation, id, r.Name, r.Model, r.AnsweredBy, first, second, r.Answer, answers, r.Finish, ended)
	case r.Kind == eval.KindPairwise:
		order := OrderForward
		if first > second {
			order = OrderReverse
		}
		var degree any
		var chances [3]any
		if c := r.Chances; c != nil {
			chances = [3]any{c.First, c.Tie, c.Second}
		}
		if r.Degree > 0 {
			degree = r.Degree
		}
		criteria, err := optionalJSON(listed(r.Criteria))
		if err != nil {
			return err
		}
		a.add(putPair, a.evaluation, id, first, second, r.Model, r.Trial, r.Winner, r.Reason, ended,
			r.Item, order, r.Judge, r.AnsweredBy, candidate1, candidate2, degree, criteria, chances[0], chances[1], chances[2])
	default:
		for _, score := range r.Scores {
			a.add(putScore, a.evaluation, id, score.Criterion, first, r.Model, r.Trial, score.Score, score.Reason, ended,
				r.Item, r.Judge, r.AnsweredBy, candidate1)
		}
	}

	return nil
}

// scoreOf returns the outcome of a panel's run: its score with the argument, or nil with the text that
// replaces the argument.
func scoreOf(r *record.Run) (score *float64, argument string) {
	argument = r.Reason
	for _, s := range r.Scores { // at most one
		score, argument = &s.Score, s.Reason
	}
	return score, argument
}

// callArgs returns the arguments of addCall and putCall.
func callArgs(id eval.ID, c *record.Call) ([]any, error) {
	var input, output, cached, written, reasoning, saved any // NULL: not reported
	if u := c.Usage; u.Reported {
		input, output, cached, written, reasoning = u.Input, u.Output, u.Cached, u.Written, u.Reasoning
	}
	if usd, known := c.Saved(); known {
		saved = usd
	}
	price, err := optionalJSON(c.Price)
	if err != nil {
		return nil, err
	}

	grounding, err := optionalJSON(c.Grounding)
	if err != nil {
		return nil, err
	}
	dropped, err := optionalJSON(listed(c.Dropped))
	if err != nil {
		return nil, err
	}

	return []any{
		string(id), c.ID, c.Phase, c.Index, c.Generation, c.Stage, c.Model,
		c.Attempt, stamp{c.Asked}, stamp{c.Started}, stamp{c.Ended}, c.BoundBy, c.Status, string(c.Class), c.Error,
		c.MaybeBill, c.RequestID, input, output, cached, written, reasoning, c.Usage.CostUSD, saved, c.MostUSD, price, c.Text,
		c.Finish, grounding, c.Reasoning, c.Worker, c.Key, c.Cached, dropped, c.Account,
	}, nil
}

// optionalJSON returns a column's value: v as JSON, or NULL if v is nil.
func optionalJSON[T any](v *T) (any, error) {
	if v == nil {
		return nil, nil //nolint:nilnil // NULL
	}
	raw, err := json.Marshal(v)
	return string(raw), err
}

func pair(values []string) (first, second string) {
	if len(values) > 0 {
		first = values[0]
	}
	if len(values) > 1 {
		second = values[1]
	}
	return first, second
}
