package worker

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// stuckProvider answers, but for the first call, which does not return until it is freed, whatever
// its context says.
func stuckProvider(t *testing.T) (p *fakeProvider, holds <-chan struct{}) {
	t.Helper()
	free, held := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(free) })
	return &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if n == 1 {
			close(held)
			<-free
		}
		return firstWins(ctx, n, request)
	}}, held
}

// A call that does not return long after its timeout ends its worker, which says where it is
// stuck. Another worker makes the run, although the first is not stopped by anyone.
func TestStuckHandlerEndsItsWorker(t *testing.T) {
	t.Parallel()
	provider, held := stuckProvider(t)
	b := setup(t, provider)
	b.submit(4, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Timeouts = map[string]time.Duration{"": time.Second}
	})
	var log lockedLog
	cfg := b.brief()
	cfg.Log, cfg.beat = zerolog.New(&log), 100*time.Millisecond // a second of the watchdog's
	ended := make(chan error, 1)
	go func() { ended <- Run(t.Context(), cfg) }()
	select {
	case <-held:
	case err := <-ended:
		t.Fatalf("the worker ended before a call was stuck: %v", err)
	}
	if err := <-ended; !errors.Is(err, ErrStuck) {
		t.Fatalf("the worker with a stuck call ended with %v, want %v", err, ErrStuck)
	}
	if said := log.String(); !strings.Contains(said, "is stuck long after its timeout") || !strings.Contains(said, "stuckProvider.func") {
		t.Errorf("the worker's log does not say where it is stuck:\n%s", said)
	}

	second := b.brief()
	second.Client = b.server.Client()
	t.Cleanup(b.start(second))
	b.wait()
	b.wantEachOnce()
	if calls, _ := provider.count(); calls < b.runs+1 {
		t.Errorf("%d calls for %d runs, want one more for the call that is stuck", calls, b.runs)
	}
}

// A handler that waits for room under a limit is not stuck, however long that takes.
func TestWaitingForALimitIsNotStuck(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	free, held := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		once.Do(func() { close(held) })
		<-free
		return firstWins(ctx, n, request)
	}})
	b.submit(3, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Timeouts = map[string]time.Duration{"": time.Hour}
		s.Limits = []ratelimit.Limit{{Kind: ratelimit.Concurrency, Max: 1}}
	})
	cfg := b.config()
	cfg.beat = 50 * time.Millisecond // a second of the watchdog's
	t.Cleanup(b.start(cfg))
	<-held
	began := time.Now()
	testrun.Eventually(t, "the watchdog has counted more than a step", func() bool {
		return time.Since(began) > 12*time.Second
	})
	close(free)
	b.wait()
	b.wantEachOnce()
}

// At the end of the grace period the worker ends, also if a handler does not.
func TestGracePeriodEndsWhateverIsStuck(t *testing.T) {
	testrun.Slow(t) // it waits for lastWords twice
	t.Parallel()
	provider, held := stuckProvider(t)
	b := setup(t, provider)
	b.submit(3)
	cfg := b.brief()
	cfg.Grace, cfg.Log = 100*time.Millisecond, zerolog.Nop() // which the call outlasts
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg) }()
	<-held
	cancel()
	if err := <-ended; !errors.Is(err, ErrStuck) {
		t.Errorf("the worker ended with %v, want %v", err, ErrStuck)
	}
}
