package worker

import (
	"fmt"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// TestWorkerWhoseClockIsAhead: a worker's clock is three days ahead of Redis's, or behind. Jobs
// and submissions of other workers, whose times are on Redis's clock, seem neither over nor far
// off to it, and all that it writes is on Redis's clock, too.
func TestWorkerWhoseClockIsAhead(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	for _, ahead := range []time.Duration{72 * time.Hour, -72 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			workerAhead(t, ahead)
		})
	}
}

func workerAhead(t *testing.T, ahead time.Duration) {
	if !redistest.CanSetClock() {
		t.Skip("needs Linux and a C compiler")
	}
	redis := redistest.NewClocked(t, nil)
	redis.SetClock(-ahead)
	all := models(nil)
	slow := latency(8 * time.Second) // longer than until a job is asked for
	all[researcher] = simulator.Model{Behaviour: &slow}
	s := simulateOn(t, redis, all)
	s.submit(2, asks("openaidp:"+researcher, eval.JSONAuto, "", ""), func(_ *eval.Evaluation, _ map[string]string, settings *record.Settings) {
		settings.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "openaidp"}, Kind: ratelimit.Concurrency, Max: 10}}
	})

	// Another worker is about to submit the job of the first run.
	task := record.Task{Evaluation: s.id, Kind: eval.KindPairwise, Model: "openaidp:" + researcher}
	submitting := store.Progress{Submitting: time.Now().Add(-ahead), Writer: "another-1"}
	if _, err := s.store.SaveProgress(t.Context(), task, submitting, nil); err != nil {
		t.Fatal(err)
	}
	defer s.start(s.cfg)()
	s.waitFor("the other run has ended", func(now store.Standing) bool {
		if submitted := s.server.Stats().Models[researcher].Submitted; submitted > 1 {
			t.Fatalf("%d jobs are submitted while one is running, and another worker may be submitting one, want 1", submitted)
		}
		return now.Total(eval.StateSucceeded) == 1
	})
	checked, err := s.store.Check(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	given := checked.Progress
	given.Submitting, given.Writer = time.Time{}, "another-2" // it gave up
	if _, err := s.store.SaveProgress(t.Context(), task, given, nil); err != nil {
		t.Fatal(err)
	}
	s.wait()
	s.wantEachOnce()

	if submitted := s.server.Stats().Models[researcher].Submitted; submitted != 2 {
		t.Errorf("%d jobs were submitted for 2 runs", submitted)
	}
	_, calls := s.outcomes()
	for _, call := range calls {
		if call.Class == providers.Lost {
			t.Errorf("call %s is taken for lost: %s", call.ID, call.Error)
		}
		for name, at := range map[string]time.Time{"asked": call.Asked, "started": call.Started, "ended": call.Ended} {
			if off := time.Until(at.Add(ahead)); off.Abs() > time.Hour {
				t.Errorf("call %s was %s %s from now by redis's clock", call.ID, name, off)
			}
		}
	}
}

// TestDelayedRunsWithAnotherClock: a worker's clock is ahead of Redis's, or behind. A run that it
// delays is due after its delay, and one that another worker held back waits no longer.
func TestDelayedRunsWithAnotherClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{72 * time.Hour, -72 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			delayedRuns(t, ahead)
		})
	}
}

func delayedRuns(t *testing.T, ahead time.Duration) {
	if !redistest.CanSetClock() {
		t.Skip("needs Linux and a C compiler")
	}
	const wait = 20 * time.Minute // longer than a run waits with the worker
	redis := redistest.NewClocked(t, nil)
	redis.SetClock(-ahead)
	b := setupOn(t, redis, &fakeProvider{answer: firstWins})
	b.submit(2)
	held := record.Task{Evaluation: b.id, Kind: eval.KindPairwise, Model: "p:m"}
	p := store.Progress{NotBefore: time.Now().Add(-ahead).Add(wait), Delay: wait, Writer: "another-1"}
	if _, err := b.store.SaveProgress(t.Context(), held, p, nil); err != nil {
		t.Fatal(err)
	}
	defer b.start(b.config())()
	testrun.EventuallyGot(t, "the run is delayed", func() (string, bool) {
		if calls, _ := b.provider.count(); calls == b.runs {
			t.Fatal("no run was delayed")
		}
		due, err := b.store.Client().ZRangeWithScores(t.Context(), "asynq:{p}:retry", 0, -1).Result()
		if err != nil || len(due) != 1 {
			return fmt.Sprint(due, err), false
		}
		left := time.Unix(int64(due[0].Score), 0).Sub(time.Now().Add(-ahead))
		if left < wait/2 || left > wait+time.Minute {
			t.Fatalf("it is due in %s by redis's clock, want %s", left, wait)
		}
		return "", true
	})
}
