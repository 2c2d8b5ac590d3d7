package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/store"
)

// A job is polled in proportion to its age: after a tenth of it, within these bounds. Providers
// forget a job about ten minutes after its end, and a queue is served for a minute after its
// evaluation was cancelled.
const (
	firstPoll = 2 * time.Second
	lastPoll  = 30 * time.Second
)

// A job that may not begin gives its place to the others of its queue, among them
// those that ask for jobs under way, which alone can make room for it.
const (
	jobWait = 100 * time.Millisecond
	jobBack = 5 * time.Second
)

// askTime bounds a request about a job: to begin it, to ask for it, to cancel it.
const askTime = 2 * time.Minute

// background is who does a model's calls as jobs; nil: they are calls.
func (r *run) background(target eval.Judge) providers.Background {
	endpoint := r.cfg.Endpoints[target.Provider]
	if endpoint.Capabilities == nil || !endpoint.Capabilities(target.Model).Background {
		return nil
	}
	jobs, _ := endpoint.Provider.(providers.Background)
	return jobs
}

// job begins a job, or polls once the job that this or another worker began. While the job
// runs, the run is back in its queue without a slot of a worker, and the job's lease counts
// under its own name.
func (r *run) job(ctx context.Context, s step, key string) (*providers.Result, error) {
	if job := r.progress.Job; job != nil && job.Call.Model == s.target.Target() {
		return r.poll(ctx, s, *job)
	}
	if err := r.withdraw(); err != nil { // of a model that is no longer asked
		return nil, err
	}
	if err := r.awaitSubmission(s, key); err != nil {
		return nil, err
	}
	if err := r.submit(ctx, s, key); err != nil {
		return nil, err
	}
	return nil, r.goBack(firstPoll, "its job is running at the provider")
}

// awaitSubmission leaves the run alone while another worker may be submitting its job, so that
// a worker that was frozen meanwhile can still record the job's name at the provider. After
// that the submission counts as an attempt and is recorded as a lost call: the job may be
// running, and cannot be found, because no provider lists jobs by a name that evalfleet gave
// them. So max_attempts bounds how many jobs a run can lose.
func (r *run) awaitSubmission(s step, key string) error {
	begun := r.progress.Submitting
	if begun.IsZero() {
		return nil
	}
	if left := time.Until(begun.Add(askTime + askTime/4)); left > 0 {
		return &putBack{delay: min(left, jobBack), why: "another worker submits its job"}
	}
	lost := &providers.Error{Class: providers.Lost, MayBeBilled: true,
		Message: "its worker died while it submitted a job, which may go on at the provider and cannot be found"}
	call := r.newCall(s, key)
	call.Asked, call.Started, call.Ended = begun.UTC(), begun.UTC(), time.Now().UTC()
	call.Class, call.Error, call.MaybeBill = lost.Class, lost.Message, true
	r.price(call, r.mostCost(call.Model, s.request), nil, lost)
	r.progress.Submitting = time.Time{}
	r.progress.Attempts++
	r.keep(*call)
	if err := r.save(); err != nil {
		return err
	}
	r.logger().Warn().Str("model", call.Model).Time("submitted", begun).Msg("a job was lost with its worker; it may go on at the provider, and be billed")
	if most := r.evaluation.record.Settings.Retry.MaxAttempts; r.failures() >= most {
		return &gaveUp{class: providers.Lost, message: "workers vanished while they submitted its job"}
	}
	return nil
}

// submit begins a job. Before, it says so in the run's progress, which no other
// pull can save from then on without knowing. The job's name is saved the moment it
// is known, also by a worker that lost its lease or stops meanwhile. A worker that
// dies in between leaves a job that nothing can find, whose place under the limits
// stays taken until its latest end.
func (r *run) submit(ctx context.Context, s step, key string) error {
	call, timeout := r.newCall(s, key), r.evaluation.record.Settings.JobTimeout(s.target.Provider, s.target.Model)
	lease, err := r.begin(ctx, call, s, timeout, true)
	if err != nil {
		return err
	}
	r.progress.Submitting = time.Now()
	if err := r.save(); err != nil {
		r.landUnused()
		return err
	}
	limited, cancel := context.WithTimeout(r.life.lasting, min(askTime, timeout))
	id, err := r.background(s.target).Submit(limited, s.request)
	cancel()
	r.progress.Submitting = time.Time{}
	if err != nil {
		return r.end(ctx, s, call, lease, nil, err, askTime)
	}
	reserved := lease.Reserved()
	job := &record.Job{
		ID: id, Ends: call.Started.Add(timeout), Call: *call,
		Input: reserved.Input, Output: reserved.Output, Cost: reserved.Cost, Lease: lease.Known(),
	}
	r.progress.Job = job
	err = r.life.persist(func(ctx context.Context) error { return r.store.SaveJob(ctx, r.task, r.progress, r.calls) })
	if err == nil {
		r.recordedCalls()
		r.life.kept.jobs.put(r.task.Evaluation, *job, r.evaluation.record.Created)
		err = r.life.persist(func(ctx context.Context) error { return r.handOver(ctx, lease, *job) })
	} else {
		err = errors.Join(err, r.disown(lease))
	}
	r.freeSlot()
	r.flight = nil
	r.move(resting)
	return err
}

// handOver has the job counted under its own name instead of the lease's.
func (r *run) handOver(ctx context.Context, lease *ratelimit.Lease, job record.Job) error {
	err := lease.Background(ctx, job.ID, time.Until(job.Ends))
	if !errors.Is(err, ratelimit.ErrLost) {
		return err
	}
	// The lease ended meanwhile, or is still held for a call that may be running.
	if err := r.admin.AssertBackground(ctx, job.ID, job.Lease, time.Until(job.Ends)); err != nil {
		return err
	}
	return lease.Release(ctx)
}

// disown ends a job that was just submitted, because the run is another worker's by
// now, or is gone.
func (r *run) disown(lease *ratelimit.Lease) error {
	err := r.life.persist(func(context.Context) error { return r.withdraw() }) // nothing else knows it
	if err != nil {
		return err
	}
	return r.life.persist(func(ctx context.Context) error {
		if err := lease.Release(ctx); err != nil {
			return err
		}
		err := r.store.AppendCalls(ctx, r.task.Evaluation, r.calls)
		if err != nil && !errors.Is(err, store.ErrNoEvaluation) {
			return err
		}
		r.recordedCalls()
		return nil
	})
}

// poll asks once for a job. One that has not ended in its time is given up. Before,
// it makes sure that the run is this worker's, and that the limits count the job: they
// may have forgotten it.
func (r *run) poll(ctx context.Context, s step, job record.Job) (*providers.Result, error) {
	r.progress.NotBefore = time.Time{}
	if err := r.save(); err != nil {
		return nil, err
	}
	r.life.kept.jobs.put(r.task.Evaluation, job, r.evaluation.record.Created)
	if err := r.life.persist(func(ctx context.Context) error { return assertJob(ctx, r.admin, job) }); err != nil {
		return nil, err
	}
	jobs, key := r.background(s.target), s.request.Key
	asking, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	age := time.Since(job.Call.Started)
	if !time.Now().Before(job.Ends) {
		if err := jobs.Cancel(asking, key, job.ID); err != nil {
			r.logger().Warn().Err(err).Str("job", job.ID).Msg("a job that took too long is not cancelled")
		}
		return r.endJob(ctx, s, job, nil, &providers.Error{Class: providers.Timeout, MayBeBilled: true,
			Message: fmt.Sprintf("the job %s has not ended in %s", job.ID, age.Round(time.Second))})
	}
	result, done, err := jobs.Poll(asking, key, job.ID)
	if !done {
		if err != nil && ctx.Err() == nil {
			r.logger().Info().Err(err).Str("job", job.ID).Msg("cannot poll a job; retrying")
		}
		next := min(max(age/10, firstPoll), lastPoll, max(time.Until(job.Ends), 0))
		return nil, &putBack{delay: next, why: "its job is running at the provider"}
	}
	return r.endJob(ctx, s, job, result, err)
}

// assertJob makes the limits count a running job.
func assertJob(ctx context.Context, limiter *ratelimit.Admin, job record.Job) error {
	left := time.Until(job.Ends)
	if left <= 0 || len(job.Lease.Limits) == 0 {
		return nil
	}
	return limiter.AssertBackground(ctx, job.ID, job.Lease, left)
}

// endJob returns a job's lease and keeps its record, as end does for a call. If this worker
// dies before the result is written, the job is polled again.
func (r *run) endJob(ctx context.Context, s step, job record.Job, result *providers.Result, err error) (*providers.Result, error) {
	call := job.Call
	call.Ended = time.Now().UTC()
	used := r.settle(ctx, nil, s, &call, ratelimit.Used{Input: job.Input, Output: job.Output, Cost: job.Cost}, result, err)
	r.emit(s.event(EventReleased)) // before another can be told that it has the slot
	ended := r.life.persist(func(ctx context.Context) error { return r.admin.EndBackground(ctx, job.ID, &used) })
	if ended != nil {
		return nil, ended
	}
	r.progress.Job = nil
	r.life.kept.jobs.drop(job.ID)
	return result, r.note(ctx, s, &call, result, err, job.Ends.Sub(call.Started))
}

// withdraw cancels the run's job, if it has one, at its provider and under the
// limits. Where the provider cannot be asked it is tried again, until the job is
// over anyhow.
func (r *run) withdraw() error {
	job := r.progress.Job
	if job == nil {
		return nil
	}
	provider, model, _ := strings.Cut(job.Call.Model, ":")
	target := eval.Judge{Provider: provider, Model: model}
	asking, cancel := context.WithTimeout(r.life.lasting, askTime)
	defer cancel()
	if jobs := r.background(target); jobs != nil && time.Now().Before(job.Ends) {
		if err := jobs.Cancel(asking, r.cfg.Endpoints[provider].Key, job.ID); err != nil {
			r.logger().Warn().Err(err).Str("job", job.ID).Msg("a job of a run that is dropped is not cancelled yet")
			return &putBack{delay: lastPoll, why: "its job is to be cancelled"}
		}
	}
	err := r.life.persist(func(ctx context.Context) error { return r.admin.EndBackground(ctx, job.ID, nil) })
	if err != nil {
		return err
	}
	call := job.Call
	call.Ended, call.Class, call.Error, call.MaybeBill = time.Now().UTC(), providers.Cancelled, "its run is no longer active", true
	r.progress.Job = nil
	r.life.kept.jobs.drop(job.ID)
	r.keep(call)
	return nil
}

// dropJob cancels the job of a run that is not to be made any more, and drops the
// run's task.
func (r *run) dropJob() error {
	if err := r.withdraw(); err != nil {
		return err
	}
	err := r.life.persist(func(ctx context.Context) error {
		err := r.store.AppendCalls(ctx, r.task.Evaluation, r.calls)
		if err != nil && !errors.Is(err, store.ErrNoEvaluation) { // deleted: its cost is not needed
			return err
		}
		return r.store.ForgetProgress(ctx, r.task.RunID())
	})
	if err != nil {
		return err
	}
	return asynq.RevokeTask
}
