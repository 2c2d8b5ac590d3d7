package ledger

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// jobs holds the jobs that this worker submitted or polled lately. When Redis loses its memory, their runs get them
// back, and the limits count them again, before another can be submitted in their place. The zero value is empty; jobs
// is safe for concurrent use.
type jobs struct {
	mu sync.Mutex // guards by
	by map[string]keptJob
}

type keptJob struct {
	record.Job
	evaluation eval.ID
	created    time.Time     // when the record was made in which the run has the job
	memory     store.Memory  // the memory last seen to have the job; empty: none yet
	at         time.Time     // when it was last known to be running
	left       time.Duration // what was left of its time then
	without    Without       // why no run has it
	over       bool          // it has ended at the provider, and the limits do not count it
}

// Without says why no run has a job.
type Without int

// Reasons; HasRun if a run has the job.
const (
	HasRun   Without = iota
	NoRecord         // Redis has lost the evaluation of its run, or it was deleted
	NotTaken         // its run has ended, or goes on without it
)

// Orphan is a job that the limits count and that no run has. It may have ended: another worker may have fetched its
// answer before Redis lost its memory, or cancelled it.
type Orphan struct {
	record.Job
	Evaluation eval.ID
	Why        Without
}

func (k *jobs) put(id eval.ID, job record.Job, created time.Time, left time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.by == nil {
		k.by = map[string]keptJob{}
	}
	kept := keptJob{Job: job, evaluation: id, created: created, at: time.Now(), left: left}
	if before := k.by[job.ID]; before.created.Equal(created) {
		kept.memory = before.memory
	}
	k.by[job.ID] = kept
}

// orphan keeps a job that no run has, for as long as it may take, unless it is kept as one already.
func (k *jobs) orphan(id eval.ID, job record.Job, left time.Duration, why Without) {
	if kept := false; k.change(job.ID, func(job *keptJob) { kept = job.without != HasRun }) && kept {
		return
	}
	k.put(id, job, time.Time{}, left)
	k.change(job.ID, func(job *keptJob) { job.without = why })
}

func (k *jobs) drop(job string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.by, job)
}

// change changes a job that is kept, and reports whether it is.
func (k *jobs) change(job string, change func(*keptJob)) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	kept, ok := k.by[job]
	if ok {
		change(&kept)
		k.by[job] = kept
	}
	return ok
}

// all returns the jobs kept. It drops jobs whose time is over, and jobs so old that another worker must have polled
// them since.
func (k *jobs) all() []keptJob {
	k.mu.Lock()
	defer k.mu.Unlock()
	var kept []keptJob
	for name, job := range k.by {
		if since := time.Since(job.at); since >= job.left || since > goneFor && job.without == HasRun {
			delete(k.by, name)
			continue
		}
		kept = append(kept, job)
	}
	return kept
}

// orphans returns the jobs that no run has and that may go on.
func (k *jobs) orphans() (orphans []Orphan) {
	for _, job := range k.all() {
		if job.without != HasRun && !job.over {
			orphans = append(orphans, Orphan{job.Job, job.evaluation, job.without})
		}
	}
	return orphans
}

// restoreJobs gives runs of an evaluation their jobs back if its record may lack them, or is gone. It makes the limits
// count jobs that they have forgotten.
func (k *Ledger) restoreJobs(ctx context.Context, id eval.ID, held store.Held) error {
	for _, job := range k.jobs.all() {
		if job.evaluation != id || job.created.Equal(held.Created) && job.memory == held.Oldest.Memory {
			continue
		}
		without := NoRecord
		if !held.Created.IsZero() {
			done, err := k.regain(ctx, k.withJob(id, job.Job))
			if errors.Is(err, store.ErrNoEvaluation) {
				return nil // gone again
			}
			if err != nil {
				return err
			}
			without = NotTaken
			if done.Restored || done.Had != nil && done.Had.ID == job.ID {
				without = HasRun
			}
		}

		if err := k.list(ctx, job, without); err != nil { // before the limits count it
			return err
		}
		kept := k.jobs.change(job.ID, func(kept *keptJob) {
			kept.without = without
			if !held.Created.IsZero() {
				kept.created, kept.memory = held.Created, held.Oldest.Memory
			}
		})
		var err error
		switch {
		case !kept: // it has ended
			err = k.store.DropOrphan(ctx, job.ID)
		case !job.over:
			err = AssertJob(ctx, k.limiter, job.Job, job.left-time.Since(job.at))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// list lists a job for other workers if it becomes an orphan, and removes it from the list if its run has it back.
func (k *Ledger) list(ctx context.Context, job keptJob, without Without) error {
	switch {
	case without != HasRun && !job.over:
		return k.store.PutOrphan(ctx, store.Orphan{Evaluation: job.evaluation, Job: job.Job, Awaited: without == NoRecord})
	case without == HasRun && job.without != HasRun:
		return k.store.DropOrphan(ctx, job.ID)
	}
	return nil
}

// orphan keeps a job that its run has no longer, and lists it.
func (k *Ledger) orphan(ctx context.Context, id eval.ID, job record.Job) error {
	k.jobs.orphan(id, job, job.Timeout(), NotTaken)
	return k.store.PutOrphan(ctx, store.Orphan{Evaluation: id, Job: job})
}

// Adopt takes over an orphan that another worker has listed and looks after no longer. left is what is left of its time.
func (k *Ledger) Adopt(o store.Orphan, left time.Duration) {
	why := NotTaken
	if o.Awaited {
		why = NoRecord
	}
	k.jobs.orphan(o.Evaluation, o.Job, left, why)
}

// withJob returns the progress to restore of a run whose job may be lost.
func (k *Ledger) withJob(id eval.ID, job record.Job) *keptProgress {
	task, least := store.WithJob(id, job)
	k.mu.Lock()
	defer k.mu.Unlock()
	if o := k.progress[task.RunID()]; o != nil && o.progress.Job != nil && o.progress.Job.ID == job.ID {
		return o.progress
	}
	return &keptProgress{task: task, Progress: least}
}

// AssertJob makes the limits count a job that has some of its time left.
func AssertJob(ctx context.Context, limiter *ratelimit.Admin, job record.Job, left time.Duration) error {
	if left <= 0 || len(job.Lease.Limits) == 0 {
		return nil
	}
	return limiter.AssertBackground(ctx, job.ID, job.Lease, left)
}
