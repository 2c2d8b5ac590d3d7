package worker

import (
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// keptJob is a job that one worker has submitted, and that only the ledger of another knows as well.
type keptJob struct {
	*simulated
	life    *life
	session *session
	job     record.Job
	task    record.Task
}

// keepJob has a job submitted that takes as long as latency.
func keepJob(t *testing.T, took time.Duration) *keptJob {
	t.Helper()
	s := research(t, latency(took), 2, func(settings *record.Settings) {
		settings.Limit = 1
		settings.Prices = map[string]providers.Price{"openaidp:" + researcher: {Rates: providers.Rates{Input: 10, Output: 40}}}
	})
	k := &keptJob{simulated: s, task: record.Task{Evaluation: s.id, Model: "openaidp:" + researcher}}
	stop := s.start(s.cfg)
	s.jobs("a job goes on", func(c simulator.Counts) bool { return c.Submitted > 0 })
	testrun.Eventually(t, "it is known", func() bool { return k.progress().Job != nil })
	k.job = *k.progress().Job
	stop()
	k.life = newLife(s.cfg)
	k.session = newSession(s.cfg, "w", k.life)
	k.life.enter(k.session)
	k.life.ledger.PutJob(s.id, k.job, s.created(), time.Hour)
	k.look()
	return k
}

// look has the ledger look at Redis once.
func (k *keptJob) look() {
	k.t.Helper()
	testrun.Eventually(k.t, "Redis has answered a look", func() bool { k.life.checkRedis(k.t.Context()); return !k.life.away })
}

func (k *keptJob) progress() store.Progress {
	k.t.Helper()
	checked, err := k.store.Check(k.t.Context(), k.task)
	if err != nil {
		k.t.Fatal(err)
	}
	return checked.Progress
}

// wantLeases wants that many jobs to count under the limit.
func (k *keptJob) wantLeases(want int64, when string) {
	k.t.Helper()
	if n := k.store.Client().ZCard(k.t.Context(), "{ef}:s:provider/openaidp/concurrency").Val(); n != want {
		k.t.Errorf("%d jobs count %s, want %d", n, when, want)
	}
}

func (k *keptJob) flush() { k.store.Client().FlushAll(k.t.Context()) }

// pullSaves saves progress of the job's run as a pull that has begun.
func (k *keptJob) pullSaves(p store.Progress) {
	k.t.Helper()
	p.Writer = "another-1"
	if _, err := k.store.SaveProgress(k.t.Context(), k.task, p, nil); err != nil {
		k.t.Fatal(err)
	}
}

// runGoesOn makes the job one that no run has: Redis loses everything, and a pull of its run submits another job before the
// worker that knows the job has looked.
func (k *keptJob) runGoesOn() {
	k.t.Helper()
	k.flush()
	k.look()
	k.resubmit()
	k.pullSaves(store.Progress{Attempts: 1, Submitting: time.Now()})
	k.look()
}

// A job that is known to one process is given back to its run, and counts under the
// limits, as soon as Redis has lost it.
func TestKeptJobIsRestored(t *testing.T) {
	t.Parallel()
	k := keepJob(t, time.Hour)
	if entries := k.submitted(); len(entries) != 1 || entries[0].ID != k.job.ID || len(entries[0].Lease.Limits) == 0 {
		t.Errorf("the results stream tells of jobs %+v, want %s with its lease", entries, k.job.ID)
	}
	k.flush()
	k.look()
	k.wantLeases(1, "while Redis does not know the evaluation")
	k.resubmit()
	// Its run is pulled before a look finds the new record, and waits for its turn.
	k.pullSaves(store.Progress{NotBefore: time.Now().Add(time.Hour), Delay: time.Hour})
	for range 2 {
		k.look()
	}
	if got := k.progress(); got.Job == nil || got.Job.ID != k.job.ID {
		t.Errorf("progress is %+v, want job %s", got, k.job.ID)
	}
	k.session.handler.Caller.SettleOrphans(t.Context())
	k.wantLeases(1, "once its run has it")
	if entries := k.submitted(); len(entries) != 1 {
		t.Errorf("the results stream tells of %d jobs, want the one", len(entries))
	}
	if got := k.simulated.server.Stats().Models[researcher]; got.Abandoned != 0 {
		t.Errorf("%d jobs were cancelled, want none", got.Abandoned)
	}
}

// Another worker has fetched the answer of a job that this one knows. When Redis loses everything, the job
// counts under the limits only until the provider has said that it has ended.
func TestKeptJobThatHasEnded(t *testing.T) {
	t.Parallel()
	k := keepJob(t, time.Second)
	k.flush()
	k.look()
	k.wantLeases(1, "before the provider is asked")
	testrun.Eventually(t, "the job has ended", func() bool { return k.simulated.server.Stats().Models[researcher].InFlight == 0 })
	k.session.handler.Caller.SettleOrphans(t.Context())
	k.wantLeases(0, "after the provider was asked")
	k.look()
	k.wantLeases(0, "after another look")
	k.resubmit()
	k.look()
	if got := k.progress(); got.Job == nil || got.Job.ID != k.job.ID {
		t.Errorf("progress is %+v, want job %s, whose answer is paid", got, k.job.ID)
	}
}

// The run of a job goes on without it after Redis has lost it. The job is cancelled, recorded, and counts no longer.
func TestKeptJobThatNoRunTakes(t *testing.T) {
	t.Parallel()
	k := keepJob(t, time.Hour)
	k.runGoesOn()
	k.wantLeases(1, "before it is cancelled")
	k.session.handler.Caller.SettleOrphans(t.Context())
	k.look()
	k.wantLeases(0, "once it is cancelled")
	k.jobs("it is cancelled", func(c simulator.Counts) bool { return c.Abandoned == 1 && c.InFlight == 0 })
	testrun.Eventually(t, "its call is recorded, and what it may have cost", func() bool {
		k.look()
		_, calls := k.outcomes()
		return len(calls) == 1 && calls[0].Class == providers.Cancelled && calls[0].MaybeBill && calls[0].MostUSD != nil &&
			k.job.Cost > 0 && *calls[0].MostUSD == float64(k.job.Cost)/ratelimit.Dollar
	})
}

// A worker that cannot call a job's provider drops no job that no run has: the job counts, and is cancelled once the
// provider can be called.
func TestKeptJobWhoseProviderCannotBeCalled(t *testing.T) {
	t.Parallel()
	k := keepJob(t, time.Hour)
	k.runGoesOn()
	endpoints := k.session.worker.Endpoints
	k.session.worker.Endpoints = nil
	k.session.handler.Caller.SettleOrphans(t.Context())
	k.look()
	if k.wantLeases(1, "while its provider cannot be called"); t.Failed() {
		t.FailNow() // it is cancelled nevermore
	}

	k.session.worker.Endpoints = endpoints
	k.session.handler.Caller.SettleOrphans(t.Context())
	k.look()
	k.wantLeases(0, "once it is cancelled")
	k.jobs("it is cancelled", func(c simulator.Counts) bool { return c.Abandoned == 1 && c.InFlight == 0 })
}

// An evaluation is deleted, and the worker that pulls the job's run cancels the job. Another that knows it, too, asks
// the provider before it counts for long.
func TestKeptJobOfADeletedEvaluation(t *testing.T) {
	t.Parallel()
	k := keepJob(t, time.Hour)
	if err := k.store.Delete(t.Context(), k.id); err != nil {
		t.Fatal(err)
	}
	endpoint := k.cfg.Endpoints["openaidp"]
	if err := endpoint.Provider.(providers.Background).Cancel(t.Context(), endpoint.Key, k.job.ID); err != nil {
		t.Fatal(err)
	}
	if err := k.session.worker.Admin.EndBackground(t.Context(), k.job.ID, nil); err != nil {
		t.Fatal(err)
	}
	k.look()
	k.session.handler.Caller.SettleOrphans(t.Context())
	k.look()
	k.wantLeases(0, "after its end")
}
