package worker

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// No look at Redis finds what it has lost, as on a machine that is too busy, until long after the
// limits admit calls again. The worker that recorded an answer asks for none of its evaluation
// before.
func TestNoCallBeforeAnswersAreRecordedAgain(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(b *bench, older redistest.Copy){
		"flushed": func(b *bench, _ redistest.Copy) {
			b.store.Client().FlushAll(context.Background())
			b.resubmit()
		},
		"an older copy": func(b *bench, older redistest.Copy) {
			b.server.Kill()
			if !b.server.Revert(older) {
				b.t.Fatal("the copy cannot be used")
			}
			b.server.Start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, &fakeProvider{answer: firstWins}, "--appendonly", "yes", "--appendfsync", "always")
			b.submit(12, atMost(10)) // 132 runs
			older := b.server.Copy()
			cfg := b.brief()
			cfg.Client = b.server.Client(func(o *redis.Options) { o.OnConnect = ratelimit.OnConnect("", cfg.Lease) })
			cfg.Log = zerolog.Nop()
			var blind atomic.Bool
			cfg.Client.AddHook(cutOffHook{away: &blind, only: "ping"})
			var back atomic.Int64
			cfg.Observer.Handled = func(h observe.Handled) {
				if strings.Contains(h.Why, "lost data") {
					back.Add(1)
				}
			}
			defer b.start(cfg)()
			b.wait()
			blind.Store(true)
			lose(b, older)

			testrun.Eventually(t, "a run is sent back", func() bool {
				calls, _ := b.provider.count()
				return back.Load() > 0 || calls > b.runs
			})
			blind.Store(false)
			b.wait()
			b.wantEachOnce()
			if calls, _ := b.provider.count(); calls != b.runs {
				t.Errorf("%d calls for %d runs: recorded runs were made again", calls, b.runs)
			}
		})
	}
}
