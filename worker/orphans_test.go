package worker

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/simulator"
)

// orphans returns the jobs that are listed.
func (k *keptJob) orphans() []store.Orphan {
	k.t.Helper()
	listed, err := k.store.Orphans(k.t.Context())
	if err != nil {
		k.t.Fatal(err)
	}
	return listed
}

// forget replaces the worker by another one, which knows nothing of the job. before is how long ago the one that died
// listed it.
func (k *keptJob) forget(before time.Duration) {
	k.t.Helper()
	k.life = newLife(k.cfg)
	k.session = newSession(k.cfg, "another", k.life)
	k.life.enter(k.session)
	for _, o := range k.orphans() {
		o.Listed = o.Listed.Add(-before)
		text, err := json.Marshal(o)
		if err != nil {
			k.t.Fatal(err)
		}
		k.store.Client().HSet(k.t.Context(), k.store.Keys().Orphans(), o.Job.ID, text)
	}
	k.look()
}

// The only worker that knows a job which no run has is killed before it has cancelled the job. Another one does, once
// nobody has listed the job for a while: until then it is the first one's.
func TestOrphanOfADeadWorker(t *testing.T) {
	t.Parallel()
	k := keepJob(t, time.Hour)
	k.runGoesOn()
	if listed := k.orphans(); len(listed) != 1 || listed[0].Job.ID != k.job.ID || listed[0].Awaited {
		t.Fatalf("orphans %+v are listed, want the job, which its run will not have back", listed)
	}

	k.forget(0)
	k.session.handler.Caller.SettleOrphans(t.Context())
	k.wantLeases(1, "while the worker that listed it may be alive")
	k.forget(time.Hour)
	k.session.handler.Caller.SettleOrphans(t.Context())
	k.look()
	k.wantLeases(0, "once another worker has cancelled it")
	k.jobs("it is cancelled", func(c simulator.Counts) bool { return c.Abandoned == 1 && c.InFlight == 0 })
	if listed := k.orphans(); len(listed) != 0 {
		t.Errorf("orphans %+v are still listed", listed)
	}
}

// Redis has lost the evaluation of a job, and the only worker that knows the job is killed. The one that takes the job
// over does not cancel it, and gives it back to its run.
func TestOrphanIsAwaited(t *testing.T) {
	t.Parallel()
	k := keepJob(t, time.Hour)
	k.flush()
	k.look()
	k.forget(time.Hour)
	k.session.handler.Caller.SettleOrphans(t.Context())
	k.wantLeases(1, "while it goes on")
	k.resubmit()
	k.look()
	if got := k.progress(); got.Job == nil || got.Job.ID != k.job.ID {
		t.Errorf("progress is %+v, want job %s", got, k.job.ID)
	}
	if listed := k.orphans(); len(listed) != 0 {
		t.Errorf("orphans %+v are listed although the run has its job", listed)
	}
	if got := k.simulated.server.Stats().Models[researcher]; got.Abandoned != 0 {
		t.Errorf("%d jobs were cancelled, want none", got.Abandoned)
	}
}

// beforeCommand calls a function once, before the first command that has a text among its arguments.
type beforeCommand struct {
	with string
	call func()
}

func (b *beforeCommand) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return next(ctx, network, address)
	}
}

func (b *beforeCommand) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if call := b.call; call != nil && strings.Contains(command.String(), b.with) {
			b.call = nil
			call()
		}
		return next(ctx, command)
	}
}

func (b *beforeCommand) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Two workers know a job that Redis has forgotten. One ends it just before the other makes the limits count it: they must
// not count it until its latest end, in which no run waits for it.
func TestJobThatEndsWhileItIsRestored(t *testing.T) {
	t.Parallel()
	k := keepJob(t, time.Hour)
	k.flush()
	k.resubmit()
	k.endsBeforeItCounts(k.cfg.Client, k.look)
	k.session.handler.Caller.SettleOrphans(t.Context())
	k.look()
	k.wantLeases(0, "once another worker has ended it")
}

// A submission gives a run its job back from the results store. A worker that has its answer records the outcome again, and
// ends the job, just before the submission makes the limits count it.
func TestJobThatEndsWhileItIsSubmitted(t *testing.T) {
	t.Parallel()
	k := keepJob(t, time.Hour)
	k.flush()
	k.endsBeforeItCounts(k.store.Client().(redis.UniversalClient), func() {
		k.resubmit(func(s *enqueue.Submission) { s.Jobs = []record.Job{k.job} })
	})
	k.wantLeases(0, "once a worker has ended it")
}

// endsBeforeItCounts does something that asks the limits through a client to count the job, and ends the job just before.
func (k *keptJob) endsBeforeItCounts(client redis.UniversalClient, do func()) {
	k.t.Helper()
	counts := &beforeCommand{with: "{ef}:l:background", call: func() {
		if err := k.session.worker.Admin.EndBackground(k.t.Context(), k.job.ID, nil); err != nil {
			k.t.Error(err)
		}
	}}
	client.AddHook(counts)
	if do(); counts.call != nil {
		k.t.Fatal("the limits were not asked to count the job")
	}
}
