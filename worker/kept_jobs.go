package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/store"
)

// keptJobs are the jobs that this worker submitted or asked for lately. When Redis
// loses its memory, their runs get them back, and the limits count them again, before
// another can be submitted in their place. The zero value keeps none; it is safe for
// concurrent use.
type keptJobs struct {
	mu   sync.Mutex // guards jobs
	jobs map[string]keptJob
}

type keptJob struct {
	record.Job
	evaluation eval.ID
	created    time.Time // of the record in which its run has it
	at         time.Time // when it was last known to be running
}

func (k *keptJobs) put(id eval.ID, job record.Job, created time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.jobs == nil {
		k.jobs = map[string]keptJob{}
	}
	k.jobs[job.ID] = keptJob{job, id, created, time.Now()}
}

func (k *keptJobs) drop(job string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.jobs, job)
}

// all are those kept, without those that another worker must have asked for since.
func (k *keptJobs) all() []keptJob {
	k.mu.Lock()
	defer k.mu.Unlock()
	var jobs []keptJob
	for name, job := range k.jobs {
		if time.Since(job.at) > goneFor || !time.Now().Before(job.Ends) {
			delete(k.jobs, name)
			continue
		}
		jobs = append(jobs, job)
	}
	return jobs
}

// restore gives runs of an evaluation their jobs back if its record was made at a time (zero:
// is gone), and makes the limits count jobs that they had forgotten. suspect: the record may
// lack its last writes.
func (k *keptJobs) restore(ctx context.Context, s *store.Store, limiter *ratelimit.Admin, id eval.ID, created time.Time, suspect bool) error {
	for _, job := range k.all() {
		if job.evaluation != id || job.created.Equal(created) && !suspect {
			continue
		}
		if !created.IsZero() {
			restored, err := s.RestoreJob(ctx, id, job.Job)
			if errors.Is(err, store.ErrNoEvaluation) {
				return nil // gone again
			}
			if err != nil {
				return err
			}
			k.mu.Lock()
			if kept, ok := k.jobs[job.ID]; ok {
				kept.created = created
				k.jobs[job.ID] = kept
			}
			k.mu.Unlock()
			if !restored {
				continue
			}
		}
		if err := assertJob(ctx, limiter, job.Job); err != nil {
			return err
		}
	}
	return nil
}
