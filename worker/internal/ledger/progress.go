package ledger

import (
	"context"
	"slices"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
)

// keptProgress is the latest progress of an unfinished run that this worker has saved.
type keptProgress struct {
	task record.Task
	store.Progress
	over string // its latest job that has ended; "": none is known
	size int
}

// PutProgress keeps the progress of an unfinished task's run, in place of what is kept of it. It was saved in the
// record made at created and in a memory of Redis; zero: no record has it. Progress that a pull has read from a Redis
// that had lost some does not replace what was lost.
func (k *Ledger) PutProgress(t record.Task, p store.Progress, created time.Time, memory store.Memory) {
	p.Submitting = time.Time{} // only this process is submitting it, and can save its name in whatever is restored
	if !p.Begun() {
		return
	}
	size := 500 + len(p.Answer)
	for _, said := range p.Said {
		size += len(said)
	}
	if p.Job != nil {
		size += sizeOf(p.Job.Call)
	}
	o := &keptOutcome{
		progress: &keptProgress{task: t, Progress: p, size: size}, created: created, entry: store.Entry{Memory: memory},
	}

	id := t.RunID()
	k.mu.Lock()
	defer k.mu.Unlock()
	if before := k.progress[id]; before != nil {
		if !before.progress.precedes(o.progress) {
			return
		}
		o.progress.over = before.progress.over
		if job := before.progress.Job; job != nil && (p.Job == nil || p.Job.ID != job.ID) {
			o.progress.over = job.ID
		}
		k.drop(before)
	}
	k.progress[id] = o
	k.keep(o)
}

// precedes reports whether next may replace p: it is what became of p, or not behind it.
func (p *keptProgress) precedes(next *keptProgress) bool {
	follows := next.Writer == p.Writer || next.Found == p.Writer
	return follows || next.task.Generation > p.task.Generation || !next.Behind(p.Progress)
}

// DropProgress forgets the progress of a run that has ended, or is not wanted any more.
func (k *Ledger) DropProgress(id eval.RunID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o := k.progress[id]; o != nil {
		k.drop(o)
	}
}

// drop drops an item that is kept. The caller has mu.
func (k *Ledger) drop(o *keptOutcome) {
	k.dropped(o)
	at := slices.Index(k.outcomes, o)
	k.outcomes = slices.Delete(k.outcomes, at, at+1)
}

// restoreProgress gives a run back the progress that Redis may have lost.
func (k *Ledger) restoreProgress(ctx context.Context, p *keptProgress) (entry store.Entry, err error) {
	done, err := k.regain(ctx, p)
	if err == nil && done.Ended {
		k.DropProgress(p.task.RunID())
	}
	return store.Entry{Memory: done.Memory}, err
}

// regain gives a run back its progress unless Redis has progress that is as far. Another worker, which knows less of the
// run, may have given it back a job: if that has ended, the limits count it no longer, and otherwise no run has it now.
func (k *Ledger) regain(ctx context.Context, p *keptProgress) (store.Regained, error) {
	done, err := k.store.RestoreProgress(ctx, p.task, p.Progress)
	if err != nil || !done.Restored || done.Had == nil {
		return done, err
	}
	switch {
	case done.Had.ID == p.over:
		err = k.limiter.EndBackground(ctx, p.over, nil)
	case p.Job == nil || done.Had.ID != p.Job.ID:
		err = k.orphan(ctx, p.task.Evaluation, *done.Had)
	}
	return done, err
}
