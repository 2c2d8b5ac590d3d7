package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/record"
	"github.com/evalfleet/evalfleet/internal/store"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// A job is asked for in its queue's time: after a tenth of its age, within these
// bounds. Providers forget one about ten minutes after its end, and a queue is
// served for a minute after its evaluation was cancelled.
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

// job begins a job, or asks once for the one that was begun: by this worker or by
// another. While it goes on nobody waits for it: the run goes back to its queue,
// without a slot of a worker, and the job's lease stands under its own name.
func (r *run) job(ctx context.Context, s step, key string) (*providers.Result, error) {
	if job := r.progress.Job; job != nil && job.Call.Model == s.target.Target() {
		return r.poll(ctx, s, *job)
	}
	if err := r.submit(ctx, s, key); err != nil {
		return nil, err
	}
	return nil, r.goBack(firstPoll, "its job goes on at the provider")
}

// submit begins a job. Its name is kept the moment it is known, and before anything
// else, so that whoever comes next goes on with it: a worker that dies between the
// provider's answer and that command leaves a job that nobody knows, whose place
// under the limits stays taken until its latest end.
func (r *run) submit(ctx context.Context, s step, key string) error {
	call, timeout := r.newCall(s, key), r.evaluation.record.Settings.JobTimeout(s.target.Provider, s.target.Model)
	lease, err := r.begin(ctx, call, s, timeout, true)
	if err != nil {
		return err
	}
	held, letGo := lease.Context(ctx)
	limited, cancel := context.WithTimeout(held, min(askTime, timeout))
	id, err := r.background(s.target).Submit(limited, s.request)
	cancel()
	letGo()
	if err != nil {
		return r.end(ctx, s, call, lease, nil, err, askTime)
	}
	reserved := lease.Reserved()
	job := &record.Job{
		ID: id, Ends: call.Started.Add(timeout), Call: *call,
		Input: reserved.Input, Output: reserved.Output, Cost: reserved.Cost,
	}
	r.progress.Job = job
	if err = r.save(); err == nil {
		err = r.life.persist(func(ctx context.Context) error {
			err := lease.Background(ctx, id, time.Until(job.Ends))
			if errors.Is(err, ratelimit.ErrLost) { // or handed over: where not, it counts under its own name
				return nil
			}
			return err
		})
	}
	r.slots.Release(1)
	r.move(resting)
	switch {
	case errors.Is(err, store.ErrNoEvaluation): // deleted meanwhile
		lease.End(0)
		return r.dropJob(ctx, *job)
	case err != nil:
		return err
	}
	return nil
}

// poll asks once for a job. One that has not ended in its time is given up.
func (r *run) poll(ctx context.Context, s step, job record.Job) (*providers.Result, error) {
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
			r.logger().Info().Err(err).Str("job", job.ID).Msg("a job does not say how it is; it is asked again")
		}
		next := min(max(age/10, firstPoll), lastPoll, max(time.Until(job.Ends), 0))
		return nil, r.goBack(next, "its job goes on at the provider")
	}
	return r.endJob(ctx, s, job, result, err)
}

// endJob gives a job's lease back and keeps its record, as end does for a call. What
// it came to is asked for again where this worker dies before it is written down.
func (r *run) endJob(ctx context.Context, s step, job record.Job, result *providers.Result, err error) (*providers.Result, error) {
	call := job.Call
	call.Ended = time.Now().UTC()
	used := r.settle(ctx, nil, s, &call, ratelimit.Used{Input: job.Input, Output: job.Output, Cost: job.Cost}, result, err)
	r.emit(s.event(EventReleased)) // before another can be told that it has the slot
	ended := r.life.persist(func(ctx context.Context) error { return r.limiter.EndBackground(ctx, job.ID, &used) })
	if ended != nil {
		return nil, ended
	}
	r.progress.Job = nil
	return result, r.note(s, &call, result, err, job.Ends.Sub(call.Started))
}

// dropJob cancels the job of a run that is not to be made any more, at its provider
// and under the limits, and drops the run's task. Where the provider cannot be asked
// it is tried again, until the job is over anyhow.
func (r *run) dropJob(ctx context.Context, job record.Job) error {
	provider, model, _ := strings.Cut(job.Call.Model, ":")
	target := eval.Judge{Provider: provider, Model: model}
	asking, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if jobs := r.background(target); jobs != nil && time.Now().Before(job.Ends) {
		if err := jobs.Cancel(asking, r.cfg.Endpoints[provider].Key, job.ID); err != nil {
			r.logger().Warn().Err(err).Str("job", job.ID).Msg("a job of a run that is dropped is not cancelled yet")
			return &putBack{delay: lastPoll, why: "its job is to be cancelled"}
		}
	}
	call := job.Call
	call.Ended, call.Class, call.Error, call.MaybeBill = time.Now().UTC(), providers.Cancelled, "its evaluation does not go on", true
	r.tellCall(call)
	err := r.life.persist(func(ctx context.Context) error {
		if err := r.limiter.EndBackground(ctx, job.ID, nil); err != nil {
			return err
		}
		err := r.store.AppendCalls(ctx, r.task.Evaluation, []record.Call{call})
		if err != nil && !errors.Is(err, store.ErrNoEvaluation) { // deleted: nobody asks what it cost
			return err
		}
		return r.store.ForgetProgress(ctx, r.task.RunID())
	})
	if err != nil {
		return err
	}
	return asynq.RevokeTask
}
