package worker

import (
	"flag"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/ratelimit"
)

var full = flag.Bool("full", false, "make as many runs as is promised, not a few: `make fleet`")

// sized is how many documents make about so many runs; a fifth of the runs where
// the whole is not asked for.
func sized(runs int) int {
	if !*full {
		runs /= 5
	}
	n := 2
	for n*(n-1) < runs {
		n++
	}
	return n
}

// underLoad makes all runs of n documents with two workers, and counts who
// answered, what they waited, and what the simulator saw.
func (s *simulated) underLoad(n int, change func(*record.Settings, *record.Fallback)) (primaries, waits, fallbacks int) {
	s.t.Helper()
	s.submit(n, fallingBack(func(settings *record.Settings, f *record.Fallback) {
		settings.Limit = 0
		change(settings, f)
	}))
	began := time.Now()
	s.cfg.Slots = 100
	defer s.start(s.cfg)()
	defer s.start(s.cfg)()
	s.wait()
	s.wantEachOnce()
	runs, _ := s.outcomes()
	for _, of := range runs {
		if of[0].AnsweredBy == primary {
			primaries++
		}
		waits += of[0].RateLimitWaits
		fallbacks += of[0].RateLimitFallbacks
	}
	counts := s.server.Stats().Models
	s.t.Logf("%d runs in %s: %d by the primary, %d waits, %d fallbacks; %d calls of the primary, %d refused, %d calls of the fallback",
		len(runs), time.Since(began).Round(time.Second/10), primaries, waits, fallbacks,
		counts[gpt].Arrived, counts[gpt].Rejected, counts[gemini].Arrived)
	if got := int(counts[gemini].Answered); got != len(runs)-primaries {
		s.t.Errorf("the simulator answered %d calls of the fallback, %d runs say that it did", got, len(runs)-primaries)
	}
	return primaries, waits, fallbacks
}

func perSecond(n int64) ratelimit.Limit {
	return ratelimit.Limit{
		Scope: ratelimit.Scope{Provider: "openai"}, Kind: ratelimit.Requests, Max: n, Period: time.Second,
		Window: ratelimit.Window{Shape: ratelimit.Bucket},
	}
}

// Calls are sent at twice the rate that the provider allows, and what it refuses is
// waited for: nearly all runs are answered by the model they asked.
func TestTwiceTheAllowedRateUsesThePrimary(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	testrun.Eventually(t, "more calls are sent than are allowed", func() bool {
		const allowed = 100
		s := simulate(t, map[string]simulator.Model{
			gpt: {
				Limits: simulator.Limits{Requests: simulator.Rates{{N: allowed, Window: time.Second}}},
				Behaviour: &simulator.Behaviour{
					Latency: simulator.Span{Min: 50 * time.Millisecond, Max: 150 * time.Millisecond},
				},
			},
			gemini: {Behaviour: &simulator.Behaviour{}},
		})
		primaries, waits, _ := s.underLoad(sized(2000), func(settings *record.Settings, f *record.Fallback) {
			settings.Limits = []ratelimit.Limit{perSecond(2 * allowed)}
			f.After429 = time.Second // for a minute
			f.MaxWait = 5 * time.Second
		})

		if primaries < s.runs*95/100 {
			t.Errorf("%d of %d runs were answered by the primary, want 95 %%", primaries, s.runs)
		}
		refused := s.server.Stats().Models[gpt].Rejected > 0 // not if the machine is too slow
		if refused && waits == 0 {
			t.Error("the provider refused calls, and no run waited")
		}
		return refused
	})
}

// A line of many runs before a fast limit is no reason to fall back, although most runs
// wait in it for longer than the longest wait.
func TestLineBeforeALimitIsNoReasonToFallBack(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const allowed = 100
	s := simulate(t, models(nil))
	began := time.Now()
	primaries, _, fallbacks := s.underLoad(sized(3000), func(settings *record.Settings, f *record.Fallback) {
		settings.Limits = []ratelimit.Limit{perSecond(allowed)}
		f.MaxWait = 500 * time.Millisecond
	})
	if primaries != s.runs || fallbacks != 0 {
		t.Errorf("%d of %d runs by the primary, %d fallbacks; want all, and none", primaries, s.runs, fallbacks)
	}
	if least := time.Duration(s.runs-2*allowed) * time.Second / allowed; time.Since(began) < least {
		t.Errorf("%d runs took %s, less than the limit of %d a second allows: %s", s.runs, time.Since(began), allowed, least)
	}
}

// A run's waits, and its current model, outlive its worker.
func TestFallbackOutlivesItsWorker(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	s := simulate(t, models(map[string]simulator.Behaviour{
		gpt:    {ThrottleRate: 1, RetryAfter: simulator.Span{Min: 300 * time.Millisecond, Max: 300 * time.Millisecond}},
		gemini: latency(20 * time.Second),
	}))
	s.submit(2, fallingBack(func(settings *record.Settings, f *record.Fallback) {
		settings.Timeouts = map[string]time.Duration{"": time.Minute}
		f.Models = []string{second, third}
		f.After429, f.MaxRetries = 300*time.Millisecond, 1
	}))
	cfg := s.cfg
	cfg.Grace = 100 * time.Millisecond
	stop := s.start(cfg)
	s.waitFor("the fallback is asked", func(store.Standing) bool { return s.server.Stats().Models[gemini].Arrived > 0 })
	stop() // in the middle of the fallback's call
	before := s.server.Stats().Models[gpt].Arrived
	checked, err := s.store.Check(t.Context(), record.Task{Evaluation: s.id, Kind: eval.KindPairwise})
	if fallen := checked.Progress.Fallen; err != nil || fallen.Asked != 1 || fallen.RateLimitWaits != 1 {
		t.Fatalf("kept: %s %+v, %v; want that the first fallback is asked after one wait", checked.Verdict, fallen, err)
	}
	defer s.start(s.cfg)()
	got := s.outcome()
	if got.AnsweredBy != second || got.RateLimitWaits != 1 || len(got.Fell) != 1 {
		t.Errorf("got %+v, want it answered by %s after one wait", got, second)
	}
	if n := s.server.Stats().Models[gpt].Arrived; n != before {
		t.Errorf("the primary was asked %d times more by the second worker, want never", n-before)
	}
}
