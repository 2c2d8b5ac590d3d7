package worker

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/observe"
)

const (
	primary = "openai:" + gpt
	second  = "google:" + gemini
	third   = "anthropic:" + claude
)

// fallingBack are the settings of these tests' evaluations: one run, whose model is
// primary.
func fallingBack(change func(*record.Settings, *record.Fallback)) func(*eval.Evaluation, map[string]string, *record.Settings) {
	return func(e *eval.Evaluation, _ map[string]string, s *record.Settings) {
		e.Judges = []eval.Judge{{Name: primary, Provider: "openai", Model: gpt}}
		f := record.DefaultFallback
		f.Models = []string{second}
		s.Limit, s.Fallback = 1, &f
		if change != nil {
			change(s, &f)
		}
	}
}

// oneEach lets one call of the primary's provider start in each interval.
func oneEach(interval time.Duration) ratelimit.Limit {
	return ratelimit.Limit{Scope: ratelimit.Scope{Provider: "openai"}, Kind: ratelimit.Requests, Max: 1, Period: interval, Burst: 1}
}

// takeTurns has another program of the account start calls at these times, without
// asking how many may: each postpones the next start by an interval.
func (s *simulated) takeTurns(interval time.Duration, at ...time.Duration) {
	s.t.Helper()
	client, ctx := s.bench.server.Client(), s.t.Context()
	key, limit, ok := ratelimit.NewAdmin(client, ratelimit.Config{}).RedisRate(oneEach(interval))
	if !ok {
		s.t.Fatal("the limit is not shared with redis_rate")
	}
	limit.Burst = 100 // more than the account has
	other, began := redis_rate.NewLimiter(client), time.Now()
	for _, when := range at {
		take := func() {
			if _, err := other.Allow(ctx, key, limit); err != nil {
				s.t.Error(err)
			}
		}
		if when == 0 {
			take()
		} else {
			timer := time.AfterFunc(when-time.Since(began), take)
			s.t.Cleanup(func() { timer.Stop() })
		}
	}
}

// outcome is what the one run of these tests came to.
func (s *simulated) outcome() record.Run {
	s.t.Helper()
	s.wait()
	s.wantEachOnce()
	runs, _ := s.outcomes()
	return runs[0][0]
}

// scenario is one run of TestWaitFirstFallBackSecond.
type scenario struct {
	behaviour simulator.Behaviour // of the primary
	settings  func(*record.Settings, *record.Fallback)
	turns     []time.Duration
	want      record.Tally
	by        string
	took      time.Duration
	calls     int64 // of the primary
}

// scenarios are the six of the source and some more, a thousand ms for each of its
// shortest waits. ms is a millisecond, or more on a slow machine.
func scenarios(ms time.Duration) map[string]scenario {
	slower := float64(ms) / float64(time.Millisecond)
	gaveUp := func(class providers.Class, wait, most float64, retries int) []record.Fell {
		return []record.Fell{{
			Event: record.EventRateLimitFallback, Original: primary, Fallback: second, Reason: record.ReasonRateLimitOrError,
			Class: class, WaitS: wait * slower, MaxWaitS: &most, Retries: retries,
		}}
	}
	return map[string]scenario{
		"1 normal operation": {by: primary, calls: 1},
		"2 wait and retry":   {turns: []time.Duration{0}, want: record.Tally{RateLimitWaits: 1}, by: primary, took: 1000 * ms, calls: 1},
		"3 several waits": {
			turns: []time.Duration{0, 500 * ms, 1500 * ms, 2500 * ms},
			want:  record.Tally{RateLimitWaits: 3}, by: primary, took: 4000 * ms, calls: 1,
		},
		"4 a wait too long": {
			turns:    []time.Duration{0, 500 * ms, 1500 * ms, 2500 * ms, 3500 * ms},
			settings: func(_ *record.Settings, f *record.Fallback) { f.MaxWait = 2500 * ms },
			want:     record.Tally{RateLimitWaits: 3, RateLimitFallbacks: 1, Fell: gaveUp(providers.RateLimited, 4, 2.5*slower, 3)},
			by:       second, took: 4000 * ms,
		},
		"5 refused by the provider": {
			behaviour: simulator.Behaviour{ThrottleBetween: simulator.Span{Max: 3000 * ms}, Hints: simulator.HintNone},
			settings:  func(_ *record.Settings, f *record.Fallback) { f.After429 = 1200 * ms },
			want:      record.Tally{RateLimitWaits: 2}, by: primary, took: 3600 * ms, calls: 3,
		},
		"refused, and held back with all others for longer": {
			behaviour: simulator.Behaviour{FailEvery: 1, FailAs: simulator.RateLimited, Hints: simulator.HintNone}, // the first call
			settings:  func(_ *record.Settings, f *record.Fallback) { f.After429 = 5 * ms },
			want:      record.Tally{RateLimitWaits: 1}, by: primary, took: 50 * ms, calls: 2,
		},
		"6 another error": {
			behaviour: simulator.Behaviour{HangRate: 1},
			settings: func(s *record.Settings, _ *record.Fallback) {
				s.Timeouts = map[string]time.Duration{"openai": 300 * ms}
			},
			want: record.Tally{Fell: gaveUp(providers.Timeout, 0, 300, 0)}, by: second, took: 300 * ms, calls: 1,
		},
		"refused for ever": {
			behaviour: simulator.Behaviour{ThrottleRate: 1, RetryAfter: simulator.Span{Min: 200 * ms, Max: 200 * ms}},
			settings:  func(_ *record.Settings, f *record.Fallback) { f.After429, f.MaxRetries = 100*ms, 2 },
			want:      record.Tally{RateLimitWaits: 2, RateLimitFallbacks: 1, Fell: gaveUp(providers.RateLimited, 0.4, 300, 2)},
			by:        second, took: 400 * ms, calls: 3,
		},
		"a hint too long": {
			behaviour: simulator.Behaviour{ThrottleRate: 1, RetryAfter: simulator.Span{Min: 3_600_000 * ms, Max: 3_600_000 * ms}},
			want:      record.Tally{RateLimitFallbacks: 1, Fell: gaveUp(providers.RateLimited, 3600, 300, 0)}, by: second, calls: 1,
		},
		"no waiting": {
			turns:    []time.Duration{0},
			settings: func(_ *record.Settings, f *record.Fallback) { f.AutoWait = false },
			want:     record.Tally{RateLimitFallbacks: 1, Fell: gaveUp(providers.RateLimited, 1, 300, 0)}, by: second,
		},
		"the day is used up": {
			behaviour: simulator.Behaviour{FailRate: 1, FailAs: simulator.QuotaDaily},
			want:      record.Tally{RateLimitFallbacks: 1, Fell: gaveUp(providers.QuotaDaily, 0, 300, 0)}, by: second, calls: 1,
		},
		"an error after retries": {
			behaviour: simulator.Behaviour{FailRate: 1},
			settings:  func(_ *record.Settings, f *record.Fallback) { f.AfterRetries = true },
			want:      record.Tally{Fell: gaveUp(providers.Transient, 0, 300, 0)}, by: second, calls: 3,
		},
	}
}

// TestWaitFirstFallBackSecond plays the scenarios. A machine on which a step takes
// longer than the scenario leaves for it plays them again, three times as slowly.
func TestWaitFirstFallBackSecond(t *testing.T) {
	t.Parallel()
	for name := range scenarios(time.Millisecond) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for slower := 1; ; slower *= 3 {
				ms := time.Duration(slower) * time.Millisecond
				wrong := playScenario(t, scenarios(ms)[name], ms)
				if len(wrong) == 0 {
					return
				}
				if slower == 27 {
					t.Fatal(strings.Join(wrong, "\n"))
				}
				t.Logf("playing it more slowly: %q", wrong)
			}
		})
	}
}

// playScenario returns what went otherwise than the scenario wants.
func playScenario(t *testing.T, c scenario, ms time.Duration) (wrong []string) {
	var mu sync.Mutex // guards wrong
	fail := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		wrong = append(wrong, fmt.Sprintf(format, args...))
	}
	s := simulate(t, models(map[string]simulator.Behaviour{gpt: c.behaviour}))
	s.submit(2, fallingBack(func(settings *record.Settings, f *record.Fallback) {
		if len(c.turns) > 0 {
			settings.Limits = []ratelimit.Limit{oneEach(1000 * ms)}
		}
		if c.settings != nil {
			c.settings(settings, f)
		}
	}))
	if len(c.turns) > 0 {
		s.takeTurns(1000*ms, c.turns...)
	}
	var waits, reserved atomic.Int64
	s.cfg.Observer.Wait = func(target eval.Judge) {
		waits.Add(1)
		if target.Target() != primary {
			fail("told of a wait for %s, want %s", target.Target(), primary)
		}
	}
	s.cfg.Observer.Reserved = func(r observe.Reserved) {
		reserved.Add(1)
		if by := r.Provider + ":" + r.Model; by != c.by || r.Input <= 0 || r.Output <= 0 {
			fail("told that %+v was reserved, want tokens of %s", r, c.by)
		}
	}
	began := time.Now()
	stop := s.start(s.cfg)
	t.Cleanup(stop)
	got := s.outcome()
	took := time.Since(began)
	stop()
	about := cmp.Options{cmpopts.EquateApprox(0, 0.2*float64(ms)/float64(time.Millisecond)), cmpopts.IgnoreFields(record.Fell{}, "At")}
	if diff := cmp.Diff(c.want, got.Tally, about); diff != "" {
		fail("waits and fallbacks (-want +got):\n%s", diff)
	}
	if waits.Load() != int64(c.want.RateLimitWaits) || reserved.Load() != 1 {
		fail("told of %d waits and of what was reserved for %d calls, want %d and 1", waits.Load(), reserved.Load(), c.want.RateLimitWaits)
	}
	if got.Model != primary || got.AnsweredBy != c.by || got.State != "succeeded" {
		fail("%s asked of %s was answered by %s, want %s (%s)", got.State, got.Model, got.AnsweredBy, c.by, got.Error)
	}
	if took < c.took-100*ms {
		fail("it took %s, want no less than about %s", took, c.took)
	}
	counts := s.server.Stats().Models
	if n := counts[gpt].Arrived; n != c.calls {
		fail("the primary saw %d calls, want %d", n, c.calls)
	}
	want := int64(0)
	if c.by == second {
		want = 1
	}
	if n := counts[gemini].Arrived; n != want {
		fail("the fallback saw %d calls, want %d", n, want)
	}
	return wrong
}

// All fail: the run fails with the last error, after each model was asked.
func TestAllModelsFail(t *testing.T) {
	t.Parallel()
	s := simulate(t, models(map[string]simulator.Behaviour{
		gpt: {FailRate: 1, FailStatus: 503}, gemini: {FailRate: 1}, claude: {FailRate: 1, FailStatus: 404},
	}))
	s.submit(2, fallingBack(func(_ *record.Settings, f *record.Fallback) { f.Models = []string{second, third} }))
	defer s.start(s.cfg)()
	got := s.outcome()
	if got.State != "failed" || got.Class != providers.ModelUnavailable || got.AnsweredBy != "" || len(got.Fell) != 2 || got.Fell[1].Fallback != third {
		t.Errorf("got %+v, want it failed with the last model's error after two fallbacks", got)
	}
	if n := s.server.Stats().All.Arrived; n != 3 {
		t.Errorf("%d calls, want one of each model", n)
	}
}

// A provider that cannot be called from here is passed over, and named once.
func TestModelsThatCannotBeCalledArePassedOver(t *testing.T) {
	t.Parallel()
	s := simulate(t, models(map[string]simulator.Behaviour{gpt: {FailRate: 1}}))
	log := &lines{}
	s.cfg.Log = zerolog.New(log)
	delete(s.cfg.Endpoints, "google")
	s.submit(3, fallingBack(func(settings *record.Settings, f *record.Fallback) {
		settings.Limit, f.Models = 0, []string{second, third}
	}))
	defer s.start(s.cfg)()
	s.wait()
	s.wantEachOnce()
	runs, _ := s.outcomes()
	for index, of := range runs {
		if of[0].AnsweredBy != third {
			t.Errorf("run %d was answered by %q, want %s", index, of[0].AnsweredBy, third)
		}
	}
	if n := strings.Count(log.String(), "this provider is not configured here"); n != 1 {
		t.Errorf("it is said %d times that google cannot be called, want once:\n%s", n, log)
	}
}

// If a model of another provider can answer, a refused key or account pauses nothing: the runs already started ask the
// provider, and then none does for a minute.
func TestRefusedKeyFallsBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		models []string
		class  providers.Class
		paused bool
	}{
		"key":                        {401, []string{second}, providers.Auth, false},
		"account":                    {402, []string{second}, providers.QuotaBilling, false},
		"past the same provider":     {401, []string{"openai:other", third}, providers.Auth, false},
		"no other provider is there": {401, []string{"openai:other"}, providers.Auth, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := simulate(t, models(map[string]simulator.Behaviour{gpt: {FailRate: 1, FailStatus: c.status}}))
			s.submit(5, fallingBack(func(set *record.Settings, f *record.Fallback) { set.Limit, f.Models = 0, c.models }))
			s.cfg.Slots = 1
			began := time.Now()
			stop := s.start(s.cfg)
			defer stop()
			if c.paused {
				testrun.Eventually(t, "the provider is paused", func() bool {
					r, err := s.store.Evaluation(t.Context(), s.id)
					return err == nil && r.Paused["openai"].Class == c.class
				})
				return
			}
			s.wait()
			runs, _ := s.outcomes()
			for index := range s.runs {
				of := runs[index][0]
				if of.AnsweredBy != c.models[len(c.models)-1] || len(of.Fell) != 1 || of.Fell[0].Class != c.class {
					t.Errorf("run %d is answered by %s after %+v, want a fallback for %s", index, of.AnsweredBy, of.Fell, c.class)
				}
			}
			n, most := s.server.Stats().Models[gpt].Arrived, 1+int64(time.Since(began)/time.Minute)
			if n < 1 || n > most {
				t.Errorf("%d calls of the provider that refuses, want 1 a minute by a worker that makes one call at a time", n)
			}
			if r, err := s.store.Evaluation(t.Context(), s.id); err != nil || len(r.Paused) > 0 {
				t.Errorf("paused %v, %v; want nothing", r.Paused, err)
			}
		})
	}
}

// A text that is too large goes to a model with a larger window, whether the
// provider says so or the request is surely too large to be worth sending.
func TestTooLargeATextGoesToALargerWindow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		window  int   // of the primary, as known here
		arrived int64 // calls of the primary
		third   int   // window of the last one
	}{
		"the provider says so": {0, 1, 100_000},
		"it may just fit":      {800, 1, 100_000},
		"surely too large":     {400, 0, 100_000},
		"to an unknown window": {800, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := simulate(t, models(map[string]simulator.Behaviour{gpt: {ContextWindow: 300}}))
			for provider, window := range map[string]int{"openai": c.window, "google": min(c.window, 200), "anthropic": c.third} {
				endpoint := s.cfg.Endpoints[provider]
				known := endpoint.Capabilities
				endpoint.Capabilities = func(model string) providers.Capabilities {
					of := known(model)
					of.ContextWindow = window
					return of
				}
				s.cfg.Endpoints[provider] = endpoint
			}
			s.submit(2, fallingBack(func(_ *record.Settings, f *record.Fallback) { f.Models = []string{second, third} }),
				func(e *eval.Evaluation, texts map[string]string, _ *record.Settings) {
					text := strings.Repeat("word ", 300)
					e.Documents[0].Hash, e.Documents[0].Bytes = eval.TextHash(text), len(text)
					texts[eval.TextHash(text)] = text
				})
			defer s.start(s.cfg)()
			got := s.outcome()
			want := record.Tally{ContextFallbacks: 1, Fell: []record.Fell{{
				Event: record.EventContextLengthFallback, Original: primary, Fallback: third, Class: providers.ContextLength, MaxWaitS: new(300.0),
			}}}
			if diff := cmp.Diff(want, got.Tally, cmpopts.IgnoreFields(record.Fell{}, "At")); diff != "" || got.AnsweredBy != third {
				t.Errorf("answered by %s (-want +got):\n%s", got.AnsweredBy, diff)
			}
			counts := s.server.Stats().Models
			if counts[gpt].Arrived != c.arrived || counts[gemini].Arrived != 0 {
				t.Errorf("%d and %d calls of the smaller models, want %d and 0", counts[gpt].Arrived, counts[gemini].Arrived, c.arrived)
			}
		})
	}
}
