package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// Begun reports whether a run was begun with this progress: a call was made for it, or is being made.
func (p Progress) Begun() bool {
	return p.Attempts+p.Cooled+p.Excused+p.Cut+p.Faults > 0 || p.step() > 0 || p.Fallen.Begun()
}

// Behind reports whether other has more answered calls than p or, with as many, more calls, or a job that p lacks.
func (p Progress) Behind(other Progress) bool {
	return cmp.Or(
		cmp.Compare(p.Answers, other.Answers), cmp.Compare(p.Attempts, other.Attempts), cmp.Compare(p.step(), other.step()),
	) < 0
}

// step returns 2 if the run has a job, 1 if one is being submitted, and 0 otherwise.
func (p Progress) step() int {
	switch {
	case p.Job != nil:
		return 2
	case !p.Submitting.IsZero():
		return 1
	}
	return 0
}

// WithJob returns the least progress of a run that has a job, and the run's task.
func WithJob(id eval.ID, job record.Job) (record.Task, Progress) {
	call := job.Call
	task := record.Task{Evaluation: id, Phase: call.Phase, Index: call.Index, Generation: call.Generation}
	return task, Progress{
		Attempts: max(0, call.Attempt-1), Started: call.Asked, Job: &job, Writer: "restored-" + job.ID,
	}
}

// Regained is the result of RestoreProgress.
type Regained struct {
	Restored bool        // Redis had lost the progress
	Ended    bool        // the run has ended, or is of another generation
	Had      *record.Job // that the run had in Redis until then; nil: none
	Memory   Memory      // of the server
}

// RestoreProgress gives an unfinished task's run back the progress that Redis may have lost. Redis keeps what it has if
// that is not behind p. The error is ErrNoEvaluation if the evaluation has no record.
func (s *Store) RestoreProgress(ctx context.Context, t record.Task, p Progress) (Regained, error) {
	id := t.RunID()
	wrap := func(err error) error { return fmt.Errorf("restore progress of run %s: %w", id, err) }
	fields, err := p.fields()
	if err != nil {
		return Regained{}, wrap(err)
	}
	var job []byte
	if p.Job != nil {
		if job, err = json.Marshal(p.Job); err != nil {
			return Regained{}, wrap(err)
		}
	}

	values := append([]any{
		id.Index % record.ChunkRuns, t.Generation, int(progressLife.Seconds()), id.Short(), record.EntryVersion,
		p.Answers, p.Attempts, p.step(), job,
	}, fields...)
	keys := append(s.progressKeys(id), s.keys.Results(id.Evaluation))
	reply, err := restoreProgressScript.Run(ctx, s.client, keys, values...).Slice()
	if err != nil {
		return Regained{}, wrap(err)
	}
	if len(reply) != 3 {
		return Regained{}, wrap(fmt.Errorf("the reply has %d values", len(reply)))
	}

	answer, _ := reply[0].(int64)
	had, _ := reply[1].(string)
	memory, _ := reply[2].(string)
	done := Regained{Restored: answer == 1, Ended: answer == 0, Memory: Memory(memory)}
	if answer == -1 {
		return Regained{}, wrap(ErrNoEvaluation)
	}
	if had == "" {
		return done, nil
	}
	if err := json.Unmarshal([]byte(had), &done.Had); err != nil {
		return Regained{}, wrap(fmt.Errorf("the job of the run: %w", err))
	}
	return done, nil
}
