package results

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/internal/text/packing"
)

// rows runs a query and yields the rows that scan reads.
func rows[T any](ctx context.Context, a *access, scan func(scanner, *T) error, query string, args ...any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		found, err := a.on.QueryContext(ctx, a.bind(query), a.values(args)...)
		if err != nil {
			yield(none, a.unread(err))
			return
		}
		defer found.Close()
		each := a.row(found)
		for found.Next() {
			var row T
			err := ctx.Err() // package sql notices it some rows later
			if err == nil {
				err = scan(each, &row)
			}
			if err != nil {
				yield(none, a.unread(err))
				return
			}
			if !yield(row, nil) {
				return
			}
		}

		if err := found.Err(); err != nil {
			yield(none, a.unread(err))
		}
	}
}

func collect[T any](seq iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for row, err := range seq {
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, nil
}

// Evaluations lists the stored evaluations, oldest first.
func (r *reader) Evaluations(ctx context.Context) ([]Listed, error) {
	return collect(rows(ctx, &r.access, func(row scanner, l *Listed) error {
		var created, finished, cancelled stamp
		var stopped sql.NullString
		err := row.Scan((*string)(&l.ID), &l.Name, &created, &finished, &cancelled, &stopped)
		l.Created, l.Finished, l.Cancelled = created.Time, finished.Time, cancelled.Time
		if err == nil {
			l.Stopped, err = decodeStop(stopped)
		}
		return err
	}, "SELECT id, name, created_at, finished_at, "+cancelledAt+", "+stoppedWhy+" FROM evaluations e ORDER BY created_at, id"))
}

// Events that say whether an evaluation is cancelled or has stopped. The last one applies.
const (
	eventCancelled = "cancelled"
	eventResumed   = "resumed"
	eventStopped   = "stopped"       // its metadata is the Stop
	eventJob       = "job_submitted" // its metadata is the record.Job
	eventNamed     = "model_named"   // its metadata is a namedModel
)

// cancelledAt selects when evaluation e was cancelled; NULL if it is not.
const cancelledAt = `(SELECT CASE name WHEN '` + eventCancelled + `' THEN created_at END FROM events
	WHERE evaluation = e.id AND name IN ('` + eventCancelled + `', '` + eventResumed + `') ORDER BY id DESC LIMIT 1)`

// Evaluation returns one stored evaluation. The error is ErrNoEvaluation if it is not stored.
func (r *reader) Evaluation(ctx context.Context, id eval.ID) (Evaluation, error) {
	e := Evaluation{ID: id, Plan: new(eval.Evaluation)}
	var asks, settings string
	var created, finished, cancelled stamp
	var stopped sql.NullString
	err := r.one(
		ctx,
		"SELECT plan, settings, created_at, finished_at, "+cancelledAt+", "+stoppedWhy+" FROM evaluations e WHERE id = ?",
		string(id),
	).
		Scan(&asks, &settings, &created, &finished, &cancelled, &stopped)
	if errors.Is(err, sql.ErrNoRows) {
		return Evaluation{}, fmt.Errorf("read %s from results database %s: %w", id, r.name, ErrNoEvaluation)
	}
	if err != nil {
		return Evaluation{}, r.unread(err)
	}

	e.Created, e.Finished, e.Cancelled = created.Time, finished.Time, cancelled.Time
	if e.Stopped, err = decodeStop(stopped); err != nil {
		return Evaluation{}, fmt.Errorf("read %s in %s: %w", id, r.name, err)
	}
	if err := json.Unmarshal([]byte(asks), e.Plan); err != nil {
		return Evaluation{}, fmt.Errorf("decode plan of %s in %s: %w", id, r.name, err)
	}
	if err := json.Unmarshal([]byte(settings), &e.Settings); err != nil {
		return Evaluation{}, fmt.Errorf("decode settings of %s in %s: %w", id, r.name, err)
	}
	e.Phases, err = collect(rows(ctx, &r.access, func(row scanner, p *record.Phase) error {
		var phase int
		var choice sql.NullString
		err := row.Scan(&phase, (*string)(&p.Kind), &p.Runs, &choice)
		if err == nil && choice.Valid {
			p.Chosen = true
			err = json.Unmarshal([]byte(choice.String), &p.Choice)
		}
		p.Open = !p.Chosen && plan.BasisOf(e.Plan, phase) != plan.Fixed
		p.Strong = plan.StrongIn(e.Plan, phase)
		return err
	}, "SELECT phase, kind, runs, choice FROM phases WHERE evaluation = ? ORDER BY phase", string(id)))
	if err == nil {
		e.OnPage, err = r.totalVotes(ctx, id)
	}
	return e, err
}

// Text returns the text of the document with a hash. The error is ErrNoText if it is not stored.
func (r *reader) Text(ctx context.Context, hash string) (string, error) {
	texts, err := r.Texts(ctx, []string{hash})
	return texts[hash], err
}

// Texts returns the texts of documents by hash. The error is ErrNoText if one is not stored.
func (r *reader) Texts(ctx context.Context, hashes []string) (map[string]string, error) {
	type document struct {
		hash   string
		packed []byte
	}
	texts := make(map[string]string, len(hashes))
	for some := range slices.Chunk(hashes, textsAtOnce) {
		args := make([]any, len(some))
		for i, hash := range some {
			args[i] = hash
		}
		found := rows(ctx, &r.access, func(row scanner, d *document) error { return row.Scan(&d.hash, &d.packed) },
			"SELECT hash, text FROM documents WHERE hash IN ("+placeholders(len(some))+")", args...)

		for d, err := range found {
			if err != nil {
				return nil, err
			}
			text, err := packing.Unpack(d.packed)
			if err != nil {
				return nil, fmt.Errorf("unpack document %s of %s: %w", d.hash, r.name, err)
			}
			texts[d.hash] = string(text)
		}
	}

	for _, hash := range hashes {
		if _, stored := texts[hash]; !stored {
			return nil, fmt.Errorf("read document %s from %s: %w", hash, r.name, ErrNoText)
		}
	}
	return texts, nil
}

// Counts returns the progress of each phase.
func (r *reader) Counts(ctx context.Context, id eval.ID) ([]PhaseCounts, error) {
	counts, err := collect(rows(ctx, &r.access, func(row scanner, c *PhaseCounts) error {
		c.Classes = map[string]int{}
		return row.Scan(&c.Phase, (*string)(&c.Kind), &c.Runs)
	}, "SELECT phase, kind, runs FROM phases WHERE evaluation = ? ORDER BY phase", string(id)))
	if err != nil {
		return nil, err
	}

	type group struct {
		phase, runs  int
		state, class string
	}
	groups := rows(ctx, &r.access, func(row scanner, g *group) error {
		return row.Scan(&g.phase, &g.state, &g.class, &g.runs)
	}, "SELECT phase, state, class, sum(runs) FROM run_totals WHERE evaluation = ? AND runs > 0 GROUP BY phase, state, class", string(id))
	for g, err := range groups {
		if err != nil {
			return nil, err
		}
		if g.phase >= len(counts) {
			return nil, fmt.Errorf("read results database %s: %s has runs of phase %d and only %d phases", r.name, id, g.phase, len(counts))
		}
		c := &counts[g.phase]
		switch stateOf(g.state) {
		case eval.StateSucceeded:
			c.Succeeded += g.runs
		case eval.StateCancelled:
			c.Cancelled += g.runs
		case eval.StateFailed:
			c.Failed += g.runs
			c.Classes[g.class] += g.runs
		}
	}

	return counts, nil
}

// States yields the recorded runs of a phase by index.
func (r *reader) States(ctx context.Context, id eval.ID, phase int) iter.Seq2[RunState, error] {
	return rows(ctx, &r.access, func(row scanner, s *RunState) error {
		var state string
		err := row.Scan(&s.Index, &state, &s.Generation)
		s.State = stateOf(state)
		return err
	}, "SELECT index_, state, generation FROM runs WHERE evaluation = ? AND phase = ? ORDER BY index_", string(id), phase)
}

func stateOf(word string) eval.State {
	for _, state := range []eval.State{eval.StateSucceeded, eval.StateFailed, eval.StateCancelled} {
		if state.String() == word {
			return state
		}
	}
	return eval.StateNone
}

// MedianLatency returns the median duration of answered calls; 0 if there are none.
func (r *reader) MedianLatency(ctx context.Context, id eval.ID) (time.Duration, error) {
	query := `
WITH answered AS (
  SELECT ` + r.seconds("started_at", "ended_at") + ` AS took
  FROM calls WHERE evaluation = ? AND class = '' AND started_at IS NOT NULL AND ended_at IS NOT NULL)
SELECT took FROM answered ORDER BY took LIMIT 1 OFFSET (SELECT count(*) FROM answered) / 2`
	var seconds float64
	err := r.one(ctx, query, string(id)).Scan(&seconds)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, r.unread(err)
	}
	return wholeMilliseconds(seconds), nil
}

// CallsBegun counts the calls that began between two times, except those in without.
func (r *reader) CallsBegun(ctx context.Context, from, to time.Time, without []string) (map[string]int64, error) {
	type group struct {
		record.Call
		calls int64
	}
	but, args := butCalls(without, stamp{from}, stamp{to})
	groups := rows(ctx, &r.access, func(row scanner, g *group) error {
		return row.Scan(&g.Model, &g.Account, &g.calls)
	}, `SELECT model, account, count(*) FROM calls WHERE started_at >= ? AND started_at < ?`+but+` GROUP BY model, account`, args...)
	begun := map[string]int64{}
	for g, err := range groups {
		if err != nil {
			return nil, err
		}
		begun[g.CalledAt()] = g.calls
	}
	return begun, nil
}

// CalledBefore reports whether a call began before a time.
func (r *reader) CalledBefore(ctx context.Context, t time.Time) (called bool, err error) {
	err = r.one(ctx, `SELECT EXISTS (SELECT 1 FROM calls WHERE started_at < ?)`, stamp{t}).Scan(&called)
	if err != nil {
		return false, r.unread(err)
	}
	return called, nil
}

// callsAtOnce bounds the number of arguments of a statement.
const callsAtOnce = 500

// Recorded returns which of the given calls of an evaluation are recorded.
func (r *reader) Recorded(ctx context.Context, id eval.ID, calls []string) (recorded []string, err error) {
	for some := range slices.Chunk(calls, callsAtOnce) {
		args := []any{string(id)}
		for _, call := range some {
			args = append(args, call)
		}
		found := rows(ctx, &r.access, func(row scanner, call *string) error { return row.Scan(call) },
			`SELECT id FROM calls WHERE evaluation = ? AND id IN (`+placeholders(len(some))+`)`, args...)
		for call, err := range found {
			if err != nil {
				return nil, err
			}
			recorded = append(recorded, call)
		}
	}
	return recorded, nil
}

// butCalls returns a condition that leaves out the given calls, and args followed by its arguments.
// The calls are few: those that were in flight at one moment.
func butCalls(without []string, args ...any) (condition string, all []any) {
	if len(without) == 0 {
		return "", args
	}
	for _, name := range without {
		args = append(args, name)
	}
	return ` AND evaluation || '.' || id NOT IN (` + placeholders(len(without)) + `)`, args
}

// Spent sums the cost of an evaluation's calls.
func (r *reader) Spent(ctx context.Context, id eval.ID, without ...string) (nano int64, unknown int, err error) {
	but, args := butCalls(without, string(id))
	err = r.one(ctx, `
SELECT coalesce(sum(CAST(round(coalesce(cost_usd, most_usd, 0) * 1e9) AS BIGINT)), 0),
  count(*) FILTER (WHERE cost_usd IS NULL AND most_usd IS NULL AND (class = '' OR may_be_billed))
FROM calls WHERE evaluation = ?`+but, args...).Scan(&nano, &unknown)
	if err != nil {
		return 0, 0, r.unread(err)
	}
	return nano, unknown, nil
}

// LastCall returns when the last call began.
func (r *reader) LastCall(ctx context.Context) (time.Time, error) {
	var last stamp
	if err := r.one(ctx, `SELECT max(started_at) FROM calls`).Scan(&last); err != nil {
		return time.Time{}, r.unread(err)
	}
	return last.Time, nil
}

// Plus returns the sum of two usages.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		Calls: u.Calls + v.Calls, FromCache: u.FromCache + v.FromCache, Input: u.Input + v.Input, Output: u.Output + v.Output,
		Cached: u.Cached + v.Cached, Written: u.Written + v.Written, Reasoning: u.Reasoning + v.Reasoning,
		Unreported: u.Unreported + v.Unreported,
		CostUSD:    u.CostUSD + v.CostUSD, SavedUSD: u.SavedUSD + v.SavedUSD, Unpriced: u.Unpriced + v.Unpriced,
	}
}
