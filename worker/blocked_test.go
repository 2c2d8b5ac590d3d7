package worker

import (
	"context"
	"sync"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/record"
)

// TestBlockedRequestIsItsRunsOwn: a firewall that rejects one request fails that run after one
// more call, and its provider's other runs are made, without a pause.
func TestBlockedRequestIsItsRunsOwn(t *testing.T) {
	t.Parallel()
	var first sync.Once
	var blocked string // the prompt that the firewall does not like
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		prompt := request.Messages[len(request.Messages)-1].Content
		first.Do(func() { blocked = prompt })
		if prompt == blocked {
			return nil, &providers.Error{Class: providers.Blocked, Status: 403, Message: "Request Rejected"}
		}
		return firstWins(ctx, n, request)
	}})
	b.submit(4, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) { s.Retry.MaxAttempts = 5 })
	t.Cleanup(b.start(b.config()))

	standing := b.wait()
	if failed := standing.Total(eval.StateFailed); failed != 1 || standing.Total(eval.StateSucceeded) != b.runs-1 || len(standing.Paused) > 0 {
		t.Errorf("%d of %d runs failed, paused %v; want 1 and no pause", failed, b.runs, standing.Paused)
	}
	if calls, _ := b.provider.count(); calls != b.runs+1 {
		t.Errorf("%d calls for %d runs, want one more for the run that is blocked", calls, b.runs)
	}
	runs, _ := b.outcomes()
	for _, of := range runs {
		if of[0].Class != "" && of[0].Class != providers.Blocked {
			t.Errorf("the run failed as %s, want %s", of[0].Class, providers.Blocked)
		}
	}
}
