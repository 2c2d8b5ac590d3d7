package worker

import (
	"context"
	"sync"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker/internal/call"
)

// Long answers are read one after another where they do not fit into memory together,
// and short ones beside them.
func TestLongAnswersShareABudgetOfBytes(t *testing.T) {
	t.Parallel()
	const fit = 4
	var mu sync.Mutex
	reading, most, short, open := 0, 0, 0, make(chan struct{})
	provider := &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if n%2 == 0 {
			mu.Lock()
			short++
			mu.Unlock()
			return firstWins(ctx, n, request)
		}
		if err := providers.ReadingOf(ctx).Room(ctx); err != nil {
			return nil, err
		}
		mu.Lock()
		reading++
		most = max(most, reading)
		mu.Unlock()
		select {
		case <-open:
		case <-ctx.Done():
		}
		mu.Lock()
		reading--
		mu.Unlock()
		return firstWins(ctx, n, request)
	}}
	b := setup(t, provider)
	b.submit(6)
	cfg := b.config()
	cfg.Slots, cfg.MaxAnswer = 20, call.LongAnswers/fit
	defer b.start(cfg)()
	testrun.Eventually(t, "as many long answers are read as fit, and short ones beside them", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return reading == fit && short > fit
	})
	close(open)
	b.wait()
	b.wantEachOnce()
	if most > fit {
		t.Errorf("%d long answers were read at once, want at most %d", most, fit)
	}
}
