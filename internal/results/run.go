package results

import (
	"context"
	"database/sql"
	"encoding/json"
	"iter"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

var (
	callColumns = "c.id, " + qualified("c", callFields)

	selectCalls = "SELECT " + callColumns +
		" FROM calls c WHERE c.evaluation = ? AND c.phase = ? AND c.index_ = ? ORDER BY c.asked_at, c.started_at, c.id"

	selectAllCalls = "SELECT " + callColumns +
		" FROM calls c WHERE c.evaluation = ? ORDER BY c.evaluation, c.phase, c.index_, c.asked_at, c.started_at, c.id"

	selectCall = "SELECT " + callColumns + " FROM calls c WHERE c.evaluation = ? AND c.id = ?"

	// The index on keys finds the few calls with one, the runs' key each of their runs.
	selectAnswered = "SELECT " + callColumns + `
FROM calls c JOIN runs r ON r.evaluation = c.evaluation AND r.phase = c.phase AND r.index_ = c.index_ AND r.generation = c.generation
WHERE c.key = ? AND c.key <> '' AND c.class = '' AND NOT c.cached AND r.state = 'succeeded'
ORDER BY c.ended_at, c.evaluation, c.id LIMIT 1`
)

// Run returns one run with its verdict and its fallbacks.
func (r *reader) Run(ctx context.Context, run eval.RunID) (RunRow, bool, error) {
	found, err := collect(rows(ctx, &r.access, scanRunRow,
		selectRuns+"r.evaluation = ? AND r.phase = ? AND r.index_ = ?"+groupRuns, string(run.Evaluation), run.Phase, run.Index))
	if err != nil || len(found) == 0 {
		return RunRow{}, false, err
	}
	if err := r.outcomes(ctx, run.Evaluation, found); err != nil {
		return RunRow{}, false, err
	}
	found[0].Fell, err = collect(rows(ctx, &r.access, scanFell,
		"SELECT name, metadata, created_at FROM events WHERE evaluation = ? AND run = ? ORDER BY id", string(run.Evaluation), run.Short()))
	return found[0], true, err
}

func scanFell(row scanner, f *record.Fell) error {
	var metadata string
	var at stamp
	if err := row.Scan(&f.Event, &metadata, &at); err != nil {
		return err
	}
	event := f.Event
	err := json.Unmarshal([]byte(metadata), f)
	f.Event, f.At = event, at.Time
	return err
}

// Jobs returns the submitted jobs whose calls have not ended.
func (r *reader) Jobs(ctx context.Context, id eval.ID) ([]record.Job, error) {
	submitted, err := collect(rows(ctx, &r.access, scanJob,
		"SELECT metadata FROM events WHERE evaluation = ? AND run = '' AND name = '"+eventJob+"' ORDER BY id", string(id)))
	if err != nil {
		return nil, err
	}
	var open []record.Job
	for _, job := range submitted {
		var ended int
		err := r.one(ctx, "SELECT count(*) FROM calls WHERE evaluation = ? AND id = ?", string(id), job.Call.ID).Scan(&ended)
		if err != nil {
			return nil, err
		}
		if ended == 0 {
			open = append(open, job)
		}
	}
	return open, nil
}

func scanJob(row scanner, j *record.Job) error {
	var metadata string
	if err := row.Scan(&metadata); err != nil {
		return err
	}
	return json.Unmarshal([]byte(metadata), j)
}

// Calls yields the calls made for one run.
func (r *reader) Calls(ctx context.Context, run eval.RunID) iter.Seq2[record.Call, error] {
	return rows(ctx, &r.access, scanCall, selectCalls, string(run.Evaluation), run.Phase, run.Index)
}

// AllCalls yields the calls made for all runs.
func (r *reader) AllCalls(ctx context.Context, id eval.ID) iter.Seq2[record.Call, error] {
	return rows(ctx, &r.access, scanCall, selectAllCalls, string(id))
}

// Answered returns the earliest useful answer to a call with a key.
func (r *reader) Answered(ctx context.Context, key string) (record.Call, bool, error) {
	found, err := collect(rows(ctx, &r.access, scanCall, selectAnswered, key))
	if err != nil || len(found) == 0 {
		return record.Call{}, false, err
	}
	return found[0], true, nil
}

func scanCall(row scanner, c *record.Call) error {
	var asked, started, ended stamp
	var input, output, cached, written, reasoning sql.NullInt64
	var saved sql.NullFloat64 // of Price and Usage
	var price, grounding, dropped sql.NullString
	err := row.Scan(&c.ID, &c.Phase, &c.Index, &c.Generation, &c.Stage, &c.Model, &c.Attempt, &asked, &started, &ended,
		&c.BoundBy, &c.Status, (*string)(&c.Class), &c.Error, &c.MaybeBill, &c.RequestID,
		&input, &output, &cached, &written, &reasoning, &c.Usage.CostUSD, &saved, &c.MostUSD, &price, &c.Text, &c.Finish,
		&grounding, &c.Reasoning, &c.Worker, &c.Key, &c.Cached, &dropped, &c.Account)
	if err == nil && price.Valid {
		err = json.Unmarshal([]byte(price.String), &c.Price)
	}
	if err == nil && grounding.Valid {
		err = json.Unmarshal([]byte(grounding.String), &c.Grounding)
	}
	if err == nil && dropped.Valid {
		err = json.Unmarshal([]byte(dropped.String), &c.Dropped)
	}
	c.Asked, c.Started, c.Ended = asked.Time, started.Time, ended.Time
	c.Usage.Reported = input.Valid
	c.Usage.Input, c.Usage.Output = input.Int64, output.Int64
	c.Usage.Cached, c.Usage.Written, c.Usage.Reasoning = cached.Int64, written.Int64, reasoning.Int64
	return err
}
