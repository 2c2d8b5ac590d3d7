package worker

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// TestBareContextErrorFailsNoRun: an endpoint that returns a bare error of a context,
// for whatever reason, costs no run.
func TestBareContextErrorFailsNoRun(t *testing.T) {
	t.Parallel()
	// interrupt ends the first call, which then returns the bare error.
	try := func(situation string, attempts int, ended providers.Class, change func(*record.Settings, *Config), interrupt func(b *bench, stop func()) (call bool)) {
		t.Run(situation, func(t *testing.T) {
			t.Parallel()
			begun, release := make(chan struct{}), make(chan struct{})
			var first atomic.Bool
			b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
				if !first.CompareAndSwap(false, true) {
					return firstWins(ctx, n, request)
				}
				close(begun)
				select {
				case <-release:
				case <-ctx.Done():
				}
				return nil, context.Canceled
			}})
			var cfg Config
			b.submit(2, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
				s.Limits = []ratelimit.Limit{{Kind: ratelimit.Concurrency, Max: 1}}
				s.Retry.MaxAttempts = attempts
				cfg = b.config()
				change(s, &cfg)
			})
			stop := b.start(cfg)
			defer func() { stop() }()
			<-begun
			if interrupt(b, stop) {
				close(release)
			}
			b.waitFor("the call that was interrupted has ended", func(store.Standing) bool {
				b.provider.mu.Lock()
				defer b.provider.mu.Unlock()
				return b.provider.inFlight == 0
			})
			stop() // and start another, which finishes what this one gave back
			if situation == "evaluation cancelled" {
				if s := b.waitFor("looked", func(store.Standing) bool { return true }); s.Total(eval.StateFailed) > 0 {
					t.Errorf("got %+v, want no failed run", s)
				}
				return
			}
			stop = b.start(b.config())
			b.wait()
			runs, calls := b.outcomes()
			for index := range b.runs {
				if of := runs[index]; len(of) != 1 || of[0].State != eval.StateSucceeded.String() {
					t.Errorf("run %d: got %+v, want one outcome, succeeded", index, of)
				}
			}
			classes := map[providers.Class]int{}
			for _, c := range calls {
				classes[c.Class]++
			}
			if classes[""] != b.runs || ended != "" && classes[ended] == 0 {
				t.Errorf("calls ended as %v, want %d answered and one as %q", classes, b.runs, ended)
			}
		})
	}
	nothing := func(*record.Settings, *Config) {}
	try("lease lost", 1, providers.Cancelled, func(_ *record.Settings, cfg *Config) {
		cfg.Lease = 5 * time.Second
	}, func(b *bench, _ func()) bool {
		client := b.store.Client()
		testrun.Eventually(b.t, "a lease is held, or was lost on a slow machine", func() bool {
			b.provider.mu.Lock()
			cut := b.provider.cut
			b.provider.mu.Unlock()
			leases := client.Keys(b.t.Context(), "{ef}:s:*").Val()
			return cut > 0 || len(leases) > 0 && client.Del(b.t.Context(), leases...).Err() == nil
		})
		return false
	})
	try("timeout", 3, providers.Timeout, func(s *record.Settings, _ *Config) {
		s.Timeouts = map[string]time.Duration{"p": 50 * time.Millisecond}
	}, func(*bench, func()) bool { return false })
	try("worker stops", 1, providers.Cancelled, func(_ *record.Settings, cfg *Config) { cfg.Grace = 20 * time.Millisecond }, func(_ *bench, stop func()) bool {
		stop()
		return false
	})
	try("worker is stopping", 3, providers.Transient, nothing, func(b *bench, stop func()) bool {
		go stop()
		b.waitFor("nothing waits in the worker", func(store.Standing) bool {
			return b.store.Client().LLen(b.t.Context(), "asynq:{p}:active").Val() == 1
		})
		return true
	})
	try("evaluation cancelled", 3, "", nothing, func(b *bench, _ func()) bool {
		if _, err := b.enqueuer().Cancel(b.t.Context(), b.id); err != nil {
			b.t.Fatal(err)
		}
		return true
	})
	try("out of the blue", 3, providers.Transient, nothing, func(*bench, func()) bool { return true })
}
