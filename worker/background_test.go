package worker

import (
	"context"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/ask"
)

const researcher = "o3-deep-research"

// research is a bench with one model that does deep research, limited to one job in flight.
func research(t *testing.T, b simulator.Behaviour, documents int, change ...func(*record.Settings)) *simulated {
	t.Helper()
	return researchIn(t, eval.JSONAuto, b, documents, change...)
}

// researchIn is research that is asked for JSON in a mode.
func researchIn(t *testing.T, mode eval.JSONMode, b simulator.Behaviour, documents int, change ...func(*record.Settings)) *simulated {
	t.Helper()
	all := models(nil)
	all[researcher] = simulator.Model{Behaviour: &b}
	s := simulate(t, all)
	s.submit(documents, asks("openaidp:"+researcher, mode, "", ""), func(_ *eval.Evaluation, _ map[string]string, settings *record.Settings) {
		settings.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "openaidp"}, Kind: ratelimit.Concurrency, Max: 1}}
		for _, f := range change {
			f(settings)
		}
	})
	return s
}

func latency(d time.Duration) simulator.Behaviour {
	return simulator.Behaviour{Latency: simulator.Span{Min: d, Max: d}}
}

// jobs waits until the simulator counts jobs as wanted.
func (s *simulated) jobs(what string, reached func(simulator.Counts) bool) {
	s.t.Helper()
	s.waitFor(what, func(store.Standing) bool { return reached(s.server.Stats().Models[researcher]) })
}

// wantCancelled wants the only job cancelled at the provider and recorded, and that it no longer counts.
func (s *simulated) wantCancelled() {
	s.t.Helper()
	s.jobs("its job is cancelled", func(c simulator.Counts) bool { return c.Abandoned == 1 && c.InFlight == 0 })
	testrun.Eventually(s.t, "its call is recorded", func() bool {
		_, calls := s.outcomes()
		return len(calls) == 1 && calls[0].Class == providers.Cancelled && calls[0].MaybeBill
	})
	s.wantFree()
}

// wantFree wants that no job counts under the limits any more.
func (s *simulated) wantFree() {
	s.t.Helper()
	s.waitFor("the job's lease has ended", func(store.Standing) bool {
		left, err := s.store.Client().HLen(s.t.Context(), "{ef}:background").Result()
		return err == nil && left == 0
	})
	if leases := s.store.Client().ZCard(s.t.Context(), "{ef}:s:provider/openaidp/concurrency").Val(); leases != 0 {
		s.t.Errorf("%d leases are left", leases)
	}
}

// TestDeepResearch: each run submits one job, never two are in flight under a limit of one, by the simulator's count,
// and a second call makes the JSON of its report. While a job runs it takes no slot of the worker, whose only slot is
// used by others.
func TestDeepResearch(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	s := research(t, latency(time.Second), 2)
	s.cfg.Slots = 1
	other := &bench{t: t, server: s.bench.server, store: s.store}
	other.submit(3, asks("openai:"+gpt, eval.JSONAuto, "", ""), func(e *eval.Evaluation, _ map[string]string, _ *record.Settings) { e.Name = "other" })
	defer s.start(s.cfg)()
	s.jobs("a job goes on", func(c simulator.Counts) bool { return c.Submitted > 0 })
	other.wait()
	s.wait()
	s.wantEachOnce()
	got := s.server.Stats().Models[researcher]
	if got.Submitted != int64(s.runs) || got.MaxInFlight != 1 || got.Answered != int64(s.runs) {
		t.Errorf("%d jobs submitted, %d at once, %d answered; want %d, one at a time", got.Submitted, got.MaxInFlight, got.Answered, s.runs)
	}
	stages := map[string]int{}
	_, calls := s.outcomes()
	for _, call := range calls {
		stages[call.Model+" "+call.Stage]++
		if call.Model == "openaidp:"+researcher && (call.Grounding == nil || call.Usage.Input == 0 || call.Ended.Sub(call.Started) < time.Second) {
			t.Errorf("call %s: %+v; want its searches, its usage and its time", call.ID, call)
		}
	}
	if stages["openaidp:"+researcher+" grounded"] != s.runs || stages["openai:"+jsonify+" json"] != s.runs || len(calls) != 2*s.runs {
		t.Errorf("calls are %v, want %d of research and as many of JSON", stages, s.runs)
	}
	s.wantFree()
}

// TestJobOutlivesItsWorker: the worker that began a job goes, and another one
// fetches what it came to.
func TestJobOutlivesItsWorker(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	var s *simulated
	testrun.Eventually(t, "a worker that stops before its job ends", func() bool {
		const takes = 8 * time.Second
		s = research(t, latency(takes), 2, func(settings *record.Settings) { settings.Limit = 1 })
		began := time.Now()
		stop := s.start(s.cfg)
		s.jobs("a job goes on", func(c simulator.Counts) bool { return c.Submitted > 0 })
		s.waitFor("it is known", func(store.Standing) bool {
			return s.store.Client().HLen(t.Context(), "{ef}:background").Val() > 0
		})
		stop()

		got := s.server.Stats().Models[researcher]
		if time.Since(began) >= takes {
			return false // the machine stood still
		}
		if got.InFlight != 1 {
			t.Errorf("%d jobs go on once the worker has ended, want the one that it did not wait for", got.InFlight)
		}
		return true
	})

	defer s.start(s.cfg)()
	s.wait()
	s.wantEachOnce()
	if got := s.server.Stats().Models[researcher]; got.Submitted != int64(s.runs) || got.MaxInFlight != 1 {
		t.Errorf("%d jobs submitted for %d runs, %d at once", got.Submitted, s.runs, got.MaxInFlight)
	}
}

// TestJobThatTakesTooLong is cancelled at the provider and tried again.
func TestJobThatTakesTooLong(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	s := research(t, simulator.Behaviour{HangRate: 1}, 2, func(settings *record.Settings) {
		settings.Limit, settings.Retry.MaxAttempts = 1, 2
		settings.Timeouts = map[string]time.Duration{"": time.Nanosecond, "openaidp": 10 * time.Second}
	})
	defer s.start(s.cfg)()
	s.wait()
	runs, calls := s.outcomes()
	if run := runs[0][0]; run.Class != providers.Timeout || run.Attempts != 2 || len(calls) != 2 {
		t.Errorf("the run ended as %s after %d attempts, %d calls recorded; want timeout after 2", run.Class, run.Attempts, len(calls))
	}
	if got := s.server.Stats().Models[researcher]; got.Submitted != 2 || got.Abandoned != 2 || got.InFlight != 0 {
		t.Errorf("%d submitted, %d cancelled, %d in flight; want 2, 2, 0", got.Submitted, got.Abandoned, got.InFlight)
	}
	s.wantFree()
}

// TestFailedJobIsTriedAgain: a job that ends as failed is an attempt like others.
func TestFailedJobIsTriedAgain(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	failing := simulator.Behaviour{FailEvery: 1, FailAs: simulator.FailedIn200, RetryAfter: simulator.Span{Min: time.Second, Max: time.Second}}
	s := research(t, failing, 2, func(settings *record.Settings) { settings.Limit = 1 })
	defer s.start(s.cfg)()
	if standing := s.wait(); standing.Total(eval.StateSucceeded) != 1 {
		t.Errorf("%d runs succeeded, want 1", standing.Total(eval.StateSucceeded))
	}
	if got := s.server.Stats().Models[researcher]; got.Submitted != 2 || got.Failed != 1 {
		t.Errorf("%d jobs submitted and %d failed, want 2 and 1", got.Submitted, got.Failed)
	}
	s.wantFree()
}

// silent is a provider whose jobs complete without text.
type silent struct {
	providers.Provider
	providers.Background
}

func (s silent) Poll(ctx context.Context, key, id string) (*providers.Result, bool, error) {
	result, done, err := s.Background.Poll(ctx, key, id)
	if result != nil {
		result.Text = ""
	}
	return result, done, err
}

// TestUselessJobsAreBounded: a job that completes without text is paid for as
// often as other calls are, although the run goes back to its queue after each.
func TestUselessJobsAreBounded(t *testing.T) {
	for name, before := range map[string]int{"with what was stored": ask.MaxRepairs, "from the start": 0} {
		t.Run(name, func(t *testing.T) {
			if before == 0 {
				testrun.Slow(t)
			}
			t.Parallel()
			s := researchIn(t, eval.JSONFalse, simulator.Behaviour{}, 2, func(settings *record.Settings) { settings.Limit = 1 })
			endpoint := s.cfg.Endpoints["openaidp"]
			endpoint.Provider = silent{endpoint.Provider, endpoint.Provider.(providers.Background)}
			s.cfg.Endpoints["openaidp"] = endpoint
			s.progress(store.Progress{Attempts: before, Answers: before, Unusable: before})
			defer s.start(s.cfg)()
			s.wait()
			runs, calls := s.outcomes()
			if got := runs[0][0]; got.Class != providers.Malformed {
				t.Errorf("the run ended as %q: %s; want malformed", got.Class, got.Error)
			}
			want := ask.MaxRepairs + 1 - before
			if got := s.server.Stats().Models[researcher]; got.Submitted != int64(want) || len(calls) != want {
				t.Errorf("%d jobs submitted, %d calls recorded; want %d", got.Submitted, len(calls), want)
			}
			s.wantFree()
		})
	}
}

// TestJobOfAnEndedEvaluationIsCancelled by the worker that drops its task.
func TestJobOfAnEndedEvaluationIsCancelled(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*simulated) error{
		"cancelled": func(s *simulated) error { _, err := s.enqueuer().Cancel(s.t.Context(), s.id); return err },
		"deleted":   func(s *simulated) error { return s.enqueuer().Delete(s.t.Context(), s.id, true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := research(t, latency(time.Hour), 2, func(settings *record.Settings) { settings.Limit = 1 })
			defer s.start(s.cfg)()
			s.jobs("a job goes on", func(c simulator.Counts) bool { return c.Submitted > 0 && c.Polled > 0 })
			if err := end(s); err != nil {
				t.Fatal(err)
			}
			s.jobs("the job is cancelled", func(c simulator.Counts) bool { return c.Abandoned == 1 && c.InFlight == 0 })
			s.wantFree()
			s.waitFor("nothing is left of the run", func(store.Standing) bool {
				return s.store.Client().Exists(t.Context(), s.store.Keys().Progress(eval.RunID{Evaluation: s.id})).Val() == 0
			})
			if name == "cancelled" {
				if _, calls := s.outcomes(); len(calls) != 1 || calls[0].Class != providers.Cancelled || !calls[0].MaybeBill {
					t.Errorf("calls are %+v, want the job, cancelled and perhaps billed", calls)
				}
			}
		})
	}
}
