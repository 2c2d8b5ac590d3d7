package worker

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/call"
)

// The connection of a call is cut, and the provider continues to work on it. The next call begins at the latest when
// the provider notices that, or, if abandoned calls are held, when the call has ended by its own timeout.
func TestACutConnectionKeepsItsSlot(t *testing.T) {
	t.Parallel()
	const timeout, jitter = 1500 * time.Millisecond, 800 * time.Millisecond
	for _, c := range []struct {
		name  string
		hold  bool
		limit ratelimit.Limit // beside one call in flight
		least time.Duration   // between the cut call's start and the next; held: its timeout counts
	}{
		{"freed", false, ratelimit.Limit{}, call.AbandonedKeep},
		{"freed under a limit of a longer jitter", false, ratelimit.Limit{
			Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Requests, Max: 10_000, Period: time.Minute,
			Window: ratelimit.Window{Shape: ratelimit.Sliding, Length: time.Minute}, Jitter: jitter}, jitter},
		{"held", true, ratelimit.Limit{}, call.AbandonedKeep},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var begun []time.Time
			var end time.Time // of the cut call, by its timeout
			b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
				mu.Lock()
				begun = append(begun, time.Now())
				if n == 1 {
					end, _ = ctx.Deadline()
				}
				mu.Unlock()
				if n == 1 {
					return nil, &providers.Error{Class: providers.Transient, Message: "connection reset by peer", MayBeBilled: true}
				}
				return firstWins(ctx, n, request)
			}})
			b.submit(2, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
				s.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Concurrency, Max: 1}}
				if c.limit.Max > 0 {
					s.Limits = append(s.Limits, c.limit)
				}
				s.Hold, s.Timeouts = c.hold, map[string]time.Duration{"p": timeout}
			})
			defer b.start(b.config())()
			b.wait()
			mu.Lock()
			defer mu.Unlock()
			const ahead = 50 * time.Millisecond // a start may be granted so much before
			if got := begun[1].Sub(begun[0]); got < c.least-ahead {
				t.Errorf("the next call began %s after the cut one, want at least %s", got, c.least)
			}
			if early := end.Sub(begun[1]); c.hold && (end.IsZero() || early > ahead) {
				t.Errorf("the next call began %s before the cut one ends by its timeout", early)
			}
		})
	}
}
