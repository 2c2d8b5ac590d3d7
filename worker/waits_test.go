package worker

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// TestWaitsForRatesAreLogged: an operator reads at the usual level that runs wait, that a wait is
// too long, that the retries are used up, and that models are swapped.
func TestWaitsForRatesAreLogged(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hint     time.Duration
		refusals int32
		fallback bool
		want     map[string]string // level by message
	}{
		"a wait":             {10 * time.Millisecond, 1, false, map[string]string{run.WaitBegins: "info"}},
		"too long a wait":    {time.Hour, 1000, true, map[string]string{run.WaitTooLong: "warn", run.FallsBack: "warn"}},
		"used up retries":    {10 * time.Millisecond, 1000, true, map[string]string{run.WaitBegins: "info", run.WaitsUsedUp: "error", run.FallsBack: "warn"}},
		"a wait, then taken": {10 * time.Millisecond, 1, true, map[string]string{run.WaitBegins: "info"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var refused atomic.Int32
			b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
				if refused.Add(1) > test.refusals {
					return firstWins(ctx, n, request)
				}
				return nil, &providers.Error{Class: providers.RateLimited, Status: 429, Message: "slower", RetryAfter: test.hint}
			}})
			b.submit(2, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
				s.Limit = 1
				if test.fallback {
					s.Fallback = &record.Fallback{Models: []string{"q:m"}, AutoWait: true, MaxWait: time.Minute, MaxRetries: 1, Base: 1, After429: 10 * time.Millisecond}
				}
			})
			var log spoken
			cfg := b.config()
			cfg.Endpoints["q"] = providers.Endpoint{Provider: &fakeProvider{answer: firstWins}, Key: "k"}
			cfg.Log = zerolog.New(zerolog.MultiLevelWriter(zerolog.NewTestWriter(t), &log)).Level(zerolog.InfoLevel)
			t.Cleanup(b.start(cfg))
			b.wait()

			log.mu.Lock()
			text := log.text.String()
			log.mu.Unlock()
			for _, message := range []string{run.WaitBegins, run.WaitTooLong, run.WaitsUsedUp, run.FallsBack} {
				lines := 0
				for line := range strings.Lines(text) {
					if !strings.Contains(line, message) {
						continue
					}
					lines++
					if want := `"level":"` + test.want[message] + `"`; !strings.Contains(line, want) || !strings.Contains(line, `"model":"p:m"`) && !strings.Contains(line, `"model":"m"`) {
						t.Errorf("got %swant %s and the model", line, want)
					}
				}
				if _, want := test.want[message]; lines > 1 || (lines == 1) != want {
					t.Errorf("%q is logged %d times, want it: %v", message, lines, want)
				}
			}
		})
	}
}
