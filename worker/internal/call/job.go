package call

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/ledger"
	"github.com/evalfleet/evalfleet/worker/internal/run"
	"github.com/evalfleet/evalfleet/worker/internal/share"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// A job is polled in proportion to its age: after a tenth of it, within these bounds. Providers
// forget a job about ten minutes after its end, and a queue is served for three minutes after its
// evaluation was cancelled.
const (
	firstPoll = 2 * time.Second
	lastPoll  = 30 * time.Second
)

// A job that may not begin gives its turn to the other runs of its queue. Some of these poll jobs that are under way,
// and only the end of such a job makes room.
const (
	jobWait = 100 * time.Millisecond
	jobBack = 5 * time.Second
)

// orphansAtOnce is how many jobs that no run has are asked about at once, so that a provider that does not answer delays
// few jobs of others.
const orphansAtOnce = 16

// AskTime bounds a request that submits, polls or cancels a job.
const AskTime = 2 * time.Minute

// background returns the provider's interface for jobs if a step's calls are made as jobs; nil: they are ordinary
// calls, or its account cannot be called from here.
func (c *Caller) background(s Step) providers.Background {
	endpoint := c.endpoint(s)
	if endpoint.Capabilities == nil || !endpoint.Capabilities(s.Target.Model).Background {
		return nil
	}
	jobs, _ := endpoint.Provider.(providers.Background)
	return jobs
}

// InBackground reports whether a model's calls are made as jobs.
func (c *Calls) InBackground(target eval.Judge) bool {
	return c.by.background(Step{Target: target}) != nil
}

// job submits a job, or polls once the job that this or another worker submitted. While the job runs, the run is in its
// queue and takes no slot of a worker, and the job's lease counts under the job's own name.
func (c *Calls) job(ctx context.Context, s Step, key string) (*providers.Result, error) {
	if job := c.run.Progress.Job; job != nil && job.Call.Model == s.Target.Target() {
		return c.poll(ctx, s, *job)
	}
	if err := c.Withdraw(ctx); err != nil { // of a model that is no longer asked
		return nil, err
	}
	if err := c.awaitSubmission(ctx, s, key); err != nil {
		return nil, err
	}
	if err := c.submit(ctx, s, key); err != nil {
		return nil, err
	}
	return nil, c.run.GoBack(ctx, firstPoll, "its job is running at the provider")
}

// awaitSubmission leaves the run alone while another worker may be submitting its job: a worker that was frozen
// meanwhile can still record the provider's name for the job. After that the submission counts as an attempt and is
// recorded as a lost call. The job may be running, and cannot be found, because no provider lists jobs by a name that
// evalfleet gave them. So max_attempts bounds how many jobs a run can lose.
func (c *Calls) awaitSubmission(ctx context.Context, s Step, key string) error {
	begun := c.run.Progress.Submitting
	if begun.IsZero() {
		return nil
	}

	now := c.run.Now()
	if left := AskTime + AskTime/4 - now.Sub(begun); left > 0 {
		return &run.PutBack{Delay: min(left, jobBack), Why: "another worker is submitting its job"}
	}
	lost := &providers.Error{Class: providers.Lost, MayBeBilled: true,
		Message: "its worker died while submitting a job, which may continue at the provider and cannot be found"}
	call := c.newCall(s, key)
	call.Asked, call.Started, call.Ended, call.Account = begun.UTC(), begun.UTC(), now.UTC(), c.run.Progress.Account
	call.Class, call.Error, call.MaybeBill = lost.Class, lost.Message, true
	c.price(call, c.mostCost(s, s.Request), nil, lost)
	c.notSubmitting()
	c.run.Progress.Attempts++
	c.keep(*call)
	if err := c.run.Save(ctx); err != nil {
		return err
	}
	c.run.Log().Warn().Str("model", call.Model).Time("submitted", begun).
		Msg("a job was lost with its worker; it may continue at the provider and be billed")
	if most := c.run.Settings().Retry.MaxAttempts; c.run.Failures() >= most {
		return &run.GaveUp{Class: providers.Lost, Message: "workers vanished while they submitted its job"}
	}
	return nil
}

// submit submits a job. It first records that in the run's progress, so that no other pull can save its progress
// without knowing. The job's name is saved as soon as it is known, even by a worker that has lost its lease or is
// stopping. A worker that dies in between leaves a job that cannot be found. The job's place under the limits stays
// taken until its latest end.
func (c *Calls) submit(ctx context.Context, s Step, key string) error {
	call, timeout := c.newCall(s, key), c.run.Settings().JobTimeout(s.Target)
	lease, err := c.begin(ctx, call, &s, timeout, true)
	if err != nil {
		return err
	}

	c.run.Progress.Submitting, c.run.Progress.Account = c.run.Now(), s.Account
	if err := c.run.Save(ctx); err != nil {
		c.landUnused(ctx)
		return err
	}
	lasting, release := c.by.Worker.Ledger.Lasting(ctx)
	limited, cancel := context.WithTimeout(lasting, min(AskTime, timeout))
	id, err := c.by.background(s).Submit(limited, s.Request)
	cancel()
	release()
	c.notSubmitting()
	if err != nil {
		c.noteTrouble(ctx, s, lease, err)
		return c.end(ctx, s, call, lease, nil, err, AskTime)
	}

	return c.runs(ctx, lease, &record.Job{ID: id, Ends: call.Started.Add(timeout), Call: *call})
}

// runs records that a job runs at its provider, and hands its lease over to it.
func (c *Calls) runs(ctx context.Context, lease *ratelimit.Lease, job *record.Job) error {
	reserved := lease.Reserved()
	job.Input, job.Output, job.Cost, job.Lease = reserved.Input, reserved.Output, reserved.Cost, lease.Known()
	c.run.Progress.Job = job
	err := c.run.SaveJob(ctx)
	if err == nil {
		c.by.Worker.Ledger.PutJob(c.run.Task.Evaluation, *job, c.run.Evaluation.Record.Created, job.Left(c.run.Now()))
		err = c.run.Persist(ctx, func(ctx context.Context) error { return c.handOver(ctx, lease, *job) })
	} else {
		err = errors.Join(err, c.disown(ctx, lease))
	}

	c.freeSlot()
	c.flight = nil
	c.run.Move(share.Resting)
	return err
}

// handOver makes the limits count the job under its own name instead of the lease's.
func (c *Calls) handOver(ctx context.Context, lease *ratelimit.Lease, job record.Job) error {
	left := job.Left(c.run.Now())
	err := lease.Background(ctx, job.ID, left)
	if !errors.Is(err, ratelimit.ErrLost) {
		return err
	}
	// The lease ended meanwhile, or is still held for a call that may be running.
	if err := c.by.Worker.Admin.AssertBackground(ctx, job.ID, job.Lease, left); err != nil {
		return err
	}
	return lease.Release(ctx)
}

// disown cancels a job that was just submitted, because another worker has the run by now, the run is gone, or it has got
// back a job that Redis had lost. It tries again while the provider is unreachable. A batch that another worker finds is
// that worker's.
func (c *Calls) disown(ctx context.Context, lease *ratelimit.Lease) error {
	found, err := c.isFound(ctx)
	if err == nil && !found {
		err = c.run.Persist(ctx, c.Withdraw) // nothing else knows it
	}
	if err != nil {
		return err
	}
	return c.run.Persist(ctx, func(ctx context.Context) error {
		if err := lease.Release(ctx); err != nil {
			return err
		}
		return c.run.SaveCalls(ctx)
	})
}

// isFound reports whether the run's batch, which was just submitted, is the one that another worker has found at the
// provider, or will find there: a submission without an answer is looked for.
func (c *Calls) isFound(ctx context.Context) (found bool, err error) {
	job := c.run.Progress.Job
	if job == nil || job.Runs == 0 {
		return false, nil
	}
	err = c.run.Persist(ctx, func(ctx context.Context) error {
		checked, err := c.by.Worker.Store.Check(ctx, c.run.Task)
		now := checked.Progress
		found = checked.Verdict == store.VerdictRun && (!now.Submitting.IsZero() || now.Job != nil && now.Job.ID == job.ID)
		return err
	})
	if found {
		c.run.Progress.Job = nil
	}
	return found, err
}

// stillCounts makes sure, before a job is polled, that the run is still this worker's, and that the limits count the job:
// they may have forgotten it.
func (c *Calls) stillCounts(ctx context.Context, job record.Job) (left time.Duration, err error) {
	c.run.Progress.NotBefore = time.Time{}
	if err := c.run.Save(ctx); err != nil {
		return 0, err
	}
	left = job.Left(c.run.Now())
	c.by.Worker.Ledger.PutJob(c.run.Task.Evaluation, job, c.run.Evaluation.Record.Created, left)
	return left, c.run.Persist(ctx, func(ctx context.Context) error { return ledger.AssertJob(ctx, c.by.Worker.Admin, job, left) })
}

// poll asks once for the result of a job, and gives up a job that has not ended in its time.
func (c *Calls) poll(ctx context.Context, s Step, job record.Job) (*providers.Result, error) {
	left, err := c.stillCounts(ctx, job)
	if err != nil {
		return nil, err
	}
	s.Account = job.Call.Account
	jobs, key := c.by.background(s), c.by.endpoint(s).Key
	if jobs == nil || c.by.pooled(s) {
		lost, back := c.awayFrom(s, job, left)
		if back == nil {
			return c.endJob(ctx, s, job, nil, lost)
		}
		return nil, back
	}
	asking, cancel := context.WithTimeout(ctx, AskTime)
	defer cancel()
	age := job.Timeout() - left
	result, done, err := jobs.Poll(asking, key, job.ID)
	if !done && left <= 0 {
		if err := jobs.Cancel(asking, key, job.ID); err != nil {
			c.run.Log().Warn().Err(err).Str("job", job.ID).Msg("cannot cancel a job that took too long")
		}
		return c.endJob(ctx, s, job, nil, &providers.Error{Class: providers.Timeout, MayBeBilled: true,
			Message: fmt.Sprintf("the job %s has not ended in %s", job.ID, age.Round(time.Second))})
	}

	if !done {
		if err != nil && ctx.Err() == nil {
			c.run.Log().Info().Err(err).Str("job", job.ID).Msg("cannot poll a job; retrying")
		}
		return nil, &run.PutBack{Delay: nextPoll(age, left), Why: "its job is running at the provider"}
	}

	return c.endJob(ctx, s, job, result, err)
}

// nextPoll returns when to poll a job of an age again that has some of its time left.
func nextPoll(age, left time.Duration) time.Duration {
	return min(max(age/10, firstPoll), lastPoll, left)
}

// endJob releases a job's lease and keeps its record, as end does for a call. If this worker dies before the result is
// written, the job is polled again.
func (c *Calls) endJob(ctx context.Context, s Step, job record.Job, result *providers.Result, err error) (*providers.Result, error) {
	defer c.by.Worker.Ledger.Ending()()
	call := job.Call
	call.Ended = c.run.Now().UTC()
	used := c.settle(ctx, nil, s, &call, ratelimit.Used{Input: job.Input, Output: job.Output, Cost: job.Cost}, result, err)
	c.run.Emit(s.Event(observe.EventReleased)) // before another can be told that it has the slot
	c.by.Worker.Ledger.DropJob(job.ID)         // first: a look must not count it again
	ended := c.run.Persist(ctx, func(ctx context.Context) error { return c.by.Worker.Admin.EndBackground(ctx, job.ID, &used) })
	if ended != nil {
		return nil, ended
	}
	c.run.Progress.Job = nil
	return result, c.note(ctx, s, &call, result, err, job.Timeout())
}

// Withdraw cancels the run's job, if it has one, at its provider and under the limits. While the provider is
// unreachable it tries again, until the job's time is over.
func (c *Calls) Withdraw(ctx context.Context) error {
	job := c.run.Progress.Job
	if job == nil {
		return nil
	}
	lasting, release := c.by.Worker.Ledger.Lasting(ctx)
	defer release()
	asking, cancel := context.WithTimeout(lasting, AskTime)
	defer cancel()

	at := c.by.remoteOf(*job)
	if at != nil && job.Left(c.run.Now()) > 0 {
		if err := at.cancel(asking); err != nil {
			c.run.Log().Warn().Err(err).Str("job", job.ID).Msg("cannot cancel the job of a dropped run; retrying")
			return &run.PutBack{Delay: lastPoll, Why: "its job must be cancelled first"}
		}
	}
	over := job.Runs > 0 && at.over(asking)
	c.by.Worker.Ledger.DropJob(job.ID)
	err := c.run.Persist(ctx, func(ctx context.Context) error { return c.by.forget(ctx, *job, over) })
	if err != nil {
		return err
	}
	c.run.Progress.Job = nil
	c.keep(cancelled(*job, c.run.Now()))
	return nil
}

// cancelled returns the record of a job that was cancelled. What it cost is unknown, and counts with its reservation.
func cancelled(job record.Job, at time.Time) record.Call {
	call := job.Call
	if job.Cost > 0 {
		call.MostUSD = dollars(job.Cost)
	}
	call.Ended, call.Class, call.Error, call.MaybeBill = at.UTC(), providers.Cancelled, "its run is no longer active", true
	inOrder(&call)
	return call
}

// SettleOrphans asks the providers about the jobs that no run has, and makes the limits forget those that have ended. It
// cancels those whose runs will not have them back. It also takes over those that workers which are gone have listed. What
// fails is tried again by the next call.
func (c *Caller) SettleOrphans(ctx context.Context) {
	if err := c.adoptOrphans(ctx); err != nil && ctx.Err() == nil {
		c.Worker.Log.Debug().Err(err).Msg("cannot look for jobs that no run has; retrying")
	}
	var asking errgroup.Group
	asking.SetLimit(orphansAtOnce)
	for _, orphan := range c.Worker.Ledger.Orphans() {
		asking.Go(func() error {
			if err := c.settleOrphan(ctx, orphan); err != nil && ctx.Err() == nil {
				c.Worker.Log.Info().Err(err).Str("job", orphan.ID).Msg("cannot end a job that no run has; retrying")
			}
			return nil
		})
	}
	_ = asking.Wait()
}

// orphanStale is how long after a worker has listed an orphan another one takes it over.
const orphanStale = time.Minute

// adoptOrphans takes over the orphans that were not listed lately.
func (c *Caller) adoptOrphans(ctx context.Context) error {
	listed, err := c.Worker.Store.Orphans(ctx)
	if err != nil || len(listed) == 0 {
		return err
	}
	now, err := c.Worker.Store.Client().Time(ctx).Result()
	if err != nil {
		return err
	}

	for _, o := range listed {
		switch left := o.Job.Left(now); {
		case left <= 0:
			err = errors.Join(err, c.Worker.Store.DropOrphan(ctx, o.Job.ID))
		case now.Sub(o.Listed).Abs() > orphanStale: // also after Redis's clock was set
			c.Worker.Ledger.Adopt(o, left)
		}
	}
	return err
}

func (c *Caller) settleOrphan(ctx context.Context, orphan ledger.Orphan) error {
	ctx, cancel := context.WithTimeout(ctx, AskTime)
	defer cancel()
	awaited := orphan.Why == ledger.NoRecord
	listed := c.Worker.Store.PutOrphan(ctx, store.Orphan{Evaluation: orphan.Evaluation, Job: orphan.Job, Awaited: awaited})
	at := c.remoteOf(orphan.Job)
	if listed != nil || at == nil {
		return listed
	}
	if awaited {
		if done, err := at.ended(ctx); !done {
			return err
		}
		c.Worker.Ledger.OrphanEnded(orphan.ID)
		return c.Worker.Ledger.Persist(ctx, func(ctx context.Context) error {
			if err := c.Worker.Admin.EndBackground(ctx, orphan.ID, nil); err != nil {
				return err
			}
			return c.Worker.Store.DropOrphan(ctx, orphan.ID)
		})
	}

	if err := at.cancel(ctx); err != nil {
		return err
	}
	over := orphan.Runs > 0 && at.over(ctx)
	now, err := c.Worker.Store.Client().Time(ctx).Result()
	if err != nil {
		return err
	}
	c.Worker.Ledger.DropJob(orphan.ID)
	// If the worker that fetched its answer has recorded the call, that record stays.
	c.Worker.Ledger.Owe(orphan.Evaluation, cancelled(orphan.Job, now))
	return c.Worker.Ledger.Persist(ctx, func(ctx context.Context) error {
		if err := c.forget(ctx, orphan.Job, over); err != nil {
			return err
		}
		return c.Worker.Store.DropOrphan(ctx, orphan.ID)
	})
}

// remote asks about a job, or a batch, at its provider.
type remote struct {
	cancel func(context.Context) error
	ended  func(context.Context) (bool, error) // a job that the provider does not know has ended
}

// over reports whether the provider says that a job which was cancelled has ended.
func (r *remote) over(ctx context.Context) bool {
	if r == nil {
		return false
	}
	ended, err := r.ended(ctx)
	return ended && err == nil
}

// remoteOf returns how to ask about a job; nil: its provider cannot be called from here.
func (c *Caller) remoteOf(job record.Job) *remote {
	provider, model, _ := strings.Cut(job.Call.Model, ":")
	s := Step{Target: eval.Judge{Provider: provider, Model: model}, Account: job.Call.Account}
	if c.pooled(s) {
		return nil // it was submitted before the provider had accounts
	}
	key := c.endpoint(s).Key
	if job.Runs == 0 {
		jobs := c.background(s)
		if jobs == nil {
			return nil
		}
		return &remote{
			cancel: func(ctx context.Context) error { return jobs.Cancel(ctx, key, job.ID) },
			ended: func(ctx context.Context) (bool, error) {
				_, done, err := jobs.Poll(ctx, key, job.ID)
				if done { // err is the job's
					err = nil
				}
				return done, err
			},
		}
	}

	batches := c.batches(s)
	if batches == nil {
		return nil
	}
	return &remote{
		cancel: func(ctx context.Context) error { return batches.CancelBatch(ctx, key, job.ID) },
		ended: func(ctx context.Context) (bool, error) {
			state, err := batches.PollBatch(ctx, key, job.ID)
			if providers.ClassOf(err) == providers.Lost {
				return true, nil
			}
			return state.Ended, err
		},
	}
}

// forget makes the limits forget a job that was cancelled. The ledger must know that already, because a look could count
// the job again. A batch that is not over counts a while longer, because its provider finishes what it has begun.
func (c *Caller) forget(ctx context.Context, job record.Job, over bool) error {
	if job.Runs > 0 && !over {
		return c.Worker.Admin.GiveUpBackground(ctx, job.ID, batchCancel)
	}
	return c.Worker.Admin.EndBackground(ctx, job.ID, nil)
}
