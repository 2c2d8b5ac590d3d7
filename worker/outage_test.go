package worker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
)

// waiting gives an evaluation patience with outages.
func waiting(patience time.Duration) func(*eval.Evaluation, map[string]string, *record.Settings) {
	return func(_ *eval.Evaluation, _ map[string]string, settings *record.Settings) { settings.Outage = patience }
}

// episode is a provider that is down for a while after a number of answers.
type episode struct {
	lasts   time.Duration
	failure func(ctx context.Context) error
	after   int // answers before it begins

	mu      sync.Mutex // guards all below
	answers int
	until   time.Time
	met     []time.Time // calls that met it
}

func (o *episode) answer(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
	o.mu.Lock()
	if o.until.IsZero() && o.answers >= o.after {
		o.until = time.Now().Add(o.lasts)
	}
	out := time.Now().Before(o.until)
	if out {
		o.met = append(o.met, time.Now())
	} else {
		o.answers++
	}
	o.mu.Unlock()
	if out {
		return nil, o.failure(ctx)
	}
	return after(5*time.Millisecond, firstWins)(ctx, n, request)
}

// TestOutageIsWaitedFor: no run fails because its provider is down for a while, and one call at a
// time asks whether the outage is over.
func TestOutageIsWaitedFor(t *testing.T) {
	t.Parallel()
	waitsForOutage(t, func(context.Context) error {
		return &providers.Error{Class: providers.Transient, Message: "refused", Err: fmt.Errorf("%w: %w", providers.ErrUnreached, providers.ErrNoServer)}
	})
}

// TestOutagesOfAllKindsAreWaitedFor: the same holds for a provider that answers, or does not, while it is down.
func TestOutagesOfAllKindsAreWaitedFor(t *testing.T) {
	testrun.Slow(t) // the wait doubles while the provider is tried
	t.Parallel()
	status := func(class providers.Class, status int) func(context.Context) error {
		return func(context.Context) error {
			return &providers.Error{Class: class, Status: status, Message: "we are down"}
		}
	}
	for name, failure := range map[string]func(context.Context) error{
		"500": status(providers.Transient, 500), "503": status(providers.Overloaded, 503), "529": status(providers.Overloaded, 529),
		"hanging": func(ctx context.Context) error {
			<-ctx.Done()
			return &providers.Error{Class: providers.Timeout, Message: "no answer", MayBeBilled: true, Err: ctx.Err()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			waitsForOutage(t, failure)
		})
	}
}

// waitsForOutage has two workers work while a provider is down for 4 s, whose calls fail meanwhile.
func waitsForOutage(t *testing.T, failure func(context.Context) error) {
	t.Helper()
	const flying = 8
	down := &episode{lasts: 4 * time.Second, failure: failure, after: 30}
	b := setup(t, &fakeProvider{answer: down.answer})
	b.submit(12, atMost(flying), waiting(time.Hour), func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Timeouts = map[string]time.Duration{"": time.Second}
		s.Retry.InitialDelay, s.Retry.MaxDelay = 300*time.Millisecond, time.Second
	})
	defer b.start(b.config())()
	defer b.start(b.config())()
	standing := b.wait()
	b.wantEachOnce()
	if failed := standing.Total(eval.StateFailed); failed > 0 {
		t.Errorf("%d of %d runs failed", failed, b.runs)
	}
	// Those in flight at its beginning, those that began before enough had failed, and a call
	// after 1 s and after twice the time each.
	if met := len(down.met); met > 2*flying+5 {
		t.Errorf("%d calls met the outage, want those in flight, %d, and few more", met, flying)
	}
}

// TestOnlyRunWaitsForItsProvider: one run alone is no reason to take an overloaded provider for
// the run's failure.
func TestOnlyRunWaitsForItsProvider(t *testing.T) {
	t.Parallel()
	down := &episode{lasts: 4 * time.Second, failure: func(context.Context) error {
		return &providers.Error{Class: providers.Overloaded, Status: 503, Message: "Loading model"}
	}}
	b := setup(t, &fakeProvider{answer: down.answer})
	b.submit(2, waiting(time.Hour), func(e *eval.Evaluation, _ map[string]string, _ *record.Settings) { e.Pairwise.Order = eval.OrderRandom })
	defer b.start(b.config())()
	if s := b.wait(); s.Total(eval.StateSucceeded) != b.runs {
		t.Errorf("%d of %d runs succeeded", s.Total(eval.StateSucceeded), b.runs)
	}
}

// TestFailingRunIsNoOutage: a run whose calls fail while others are answered uses up its attempts.
func TestFailingRunIsNoOutage(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if text := request.Messages[len(request.Messages)-1].Content; strings.Contains(text, "text 7") && strings.Contains(text, "text 8") {
			return nil, &providers.Error{Class: providers.Transient, Status: 500, Message: "it crashes me"}
		}
		return after(time.Millisecond, firstWins)(ctx, n, request)
	}})
	b.submit(9, atMost(4), waiting(time.Hour))
	defer b.start(b.config())()
	if s := b.wait(); s.Total(eval.StateFailed) != 2 {
		t.Errorf("%d runs failed, want those of one pair", s.Total(eval.StateFailed))
	}
}

// TestLongOutagePausesTheProvider: when an evaluation's patience is over its provider is paused,
// with no run failed, and what is left is made after a resume alone.
func TestLongOutagePausesTheProvider(t *testing.T) {
	t.Parallel()
	var mended atomic.Bool
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if mended.Load() {
			return firstWins(ctx, n, request)
		}
		return nil, &providers.Error{Class: providers.Overloaded, Status: 529, Message: "overloaded"}
	}})
	b.submit(5, waiting(2*time.Second))
	defer b.start(b.config())()
	paused := b.waitFor("p is paused", func(s store.Standing) bool { return s.Paused["p"].For >= 2*time.Second })
	if failed := paused.Total(eval.StateFailed); failed > 0 {
		t.Errorf("%d runs failed", failed)
	}
	mended.Store(true)
	if _, err := b.enqueuer().Resume(t.Context(), b.id); err != nil {
		t.Fatal(err)
	}
	if s := b.wait(); s.Total(eval.StateSucceeded) != b.runs {
		t.Errorf("%d of %d runs succeeded", s.Total(eval.StateSucceeded), b.runs)
	}
}

// TestLocalTroubleIsLocal: a worker that cannot call a provider which answers others returns its runs to their queues
// and pauses nothing.
func TestLocalTroubleIsLocal(t *testing.T) {
	t.Parallel()
	way := func(cause error) error {
		return &providers.Error{Class: providers.Transient, Message: cause.Error(), Err: fmt.Errorf("%w: %w", providers.ErrUnreached, cause)}
	}
	for name, failure := range map[string]error{
		"name":   way(fmt.Errorf("lookup api.example: %w", providers.ErrNoServer)),
		"proxy":  way(syscall.ECONNREFUSED),
		"key":    &providers.Error{Class: providers.Auth, Status: 401, Message: "revoked"},
		"broken": &providers.Error{Class: providers.Transient, Status: 502, Message: "Bad Gateway"},
		"files":  &providers.Error{Class: providers.Transient, Message: "too many open files", Err: fmt.Errorf("%w: %w", providers.ErrExhausted, syscall.EMFILE)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			met := make(chan struct{}) // the sick worker has called
			b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
				if n > 30 {
					<-met
				}
				return after(30*time.Millisecond, firstWins)(ctx, n, request)
			}})
			b.submit(16, waiting(time.Hour), atMost(16))
			healthy := b.config()
			healthy.Slots = 4 // so that the other finds runs and free slots
			if name == "broken" {
				healthy.Slots = 12
			}
			defer b.start(healthy)()
			b.waitFor("the healthy worker has answers", func(s store.Standing) bool { return s.Total(eval.StateSucceeded) > 20 })
			meet := sync.OnceFunc(func() { close(met) })
			sick := &fakeProvider{answer: func(context.Context, int, *providers.Request) (*providers.Result, error) {
				meet()
				return nil, failure
			}}
			cfg, log, most := b.config(), &spoken{}, 40
			if name == "broken" {
				// Only after an outage of both is it known whose trouble it is. One of them asks at growing intervals
				// whether it is over: the healthy one, if it has most of the runs in hand.
				cfg.Slots, most = 3, 20
			}
			cfg.Endpoints = map[string]providers.Endpoint{"p": {Provider: sick, Key: "old"}}
			cfg.Log = zerolog.New(zerolog.MultiLevelWriter(zerolog.NewTestWriter(t), log)).Level(zerolog.WarnLevel)
			cfg.Probe = &Probe{}
			defer b.start(cfg)()
			standing := b.wait()
			b.wantEachOnce()
			calls, _ := sick.count()
			if len(standing.Paused) > 0 || standing.Total(eval.StateFailed) > 0 {
				t.Errorf("paused: %v; %d of %d runs failed", standing.Paused, standing.Total(eval.StateFailed), b.runs)
			}
			if calls > most {
				t.Errorf("the sick worker called %d times", calls)
			}
			if n := log.count("has no answers"); n > 1 {
				t.Errorf("the calls of both workers waited %d times, want at most once", n)
			}
			if n := log.count("this worker cannot call provider p"); n != 1 {
				t.Errorf("the trouble is said %d times after %d calls, want once", n, calls)
			}
		})
	}
}

// TestWorkerRecovers: a worker whose trouble ends makes calls again, also where it is the only one.
func TestWorkerRecovers(t *testing.T) {
	t.Parallel()
	down := &episode{lasts: 3 * time.Second, after: 3, failure: func(context.Context) error {
		return &providers.Error{Class: providers.Transient, Message: "too many open files", Err: fmt.Errorf("%w: %w", providers.ErrExhausted, syscall.EMFILE)}
	}}
	b := setup(t, &fakeProvider{answer: down.answer})
	b.submit(8, waiting(time.Hour), atMost(8))
	defer b.start(b.config())()
	if s := b.wait(); s.Total(eval.StateSucceeded) != b.runs {
		t.Errorf("%d of %d runs succeeded", s.Total(eval.StateSucceeded), b.runs)
	}
	if met := len(down.met); met > 30 {
		t.Errorf("%d calls were tried", met)
	}
}
