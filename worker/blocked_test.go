package worker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
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

// TestARefusalOfOneRunStopsNoOther: a provider that refuses the key for the first run alone, say
// for what is in it, answers the others. That run is asked again between them and fails, whether
// the calls are made one after the other or together.
func TestARefusalOfOneRunStopsNoOther(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{1, 4} {
		for _, class := range []providers.Class{providers.Auth, providers.QuotaBilling} {
			t.Run(fmt.Sprintf("%s, %d at once", class, limit), func(t *testing.T) {
				t.Parallel()
				oneRunIsRefused(t, class, limit)
			})
		}
	}
}

func oneRunIsRefused(t *testing.T, class providers.Class, limit int64) {
	var first sync.Once
	var refused string
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		prompt := request.Messages[len(request.Messages)-1].Content
		first.Do(func() { refused = prompt })
		if prompt == refused {
			return nil, &providers.Error{Class: class, Status: 403, Message: "not for you"}
		}
		return after(20*time.Millisecond, firstWins)(ctx, n, request)
	}})
	b.submit(4, atMost(limit), func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Retry.InitialDelay = 300 * time.Millisecond
	})
	t.Cleanup(b.start(b.config()))

	standing := b.waitFor("all has ended, or is paused", func(s store.Standing) bool {
		return len(s.Paused) > 0 || s.Total(eval.StateSucceeded)+s.Total(eval.StateFailed) == b.runs
	})
	if failed := standing.Total(eval.StateFailed); failed != 1 || standing.Total(eval.StateSucceeded) != b.runs-1 || len(standing.Paused) > 0 {
		t.Errorf("%d of %d runs failed, paused %v; want 1 and no pause", failed, b.runs, standing.Paused)
	}
	runs, _ := b.outcomes()
	for _, of := range runs {
		if of[0].State == "failed" && of[0].Class != providers.Blocked {
			t.Errorf("the run failed as %s, want %s", of[0].Class, providers.Blocked)
		}
	}
}

// TestAnUnknownModelStopsAtItsFirstCall: a name that the provider does not know pauses it before
// a run fails, said once; what a model that has answered is missing is its run's own.
func TestAnUnknownModelStopsAtItsFirstCall(t *testing.T) {
	t.Parallel()
	const limit = 4
	var known atomic.Bool
	b, _, log := neighbours(t, &fakeProvider{answer: after(20*time.Millisecond, func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if known.Load() {
			return firstWins(ctx, n, request)
		}
		return nil, &providers.Error{Class: providers.ModelUnavailable, Status: 404, Message: "no such model"}
	})}, 8, limit)
	b.waitFor("the other provider's runs have ended", func(s store.Standing) bool { return s.Total(eval.StateSucceeded) == b.runs/2 })
	standing := b.waitFor("p is paused", func(s store.Standing) bool { return s.Paused["p"].Class == providers.ModelUnavailable })
	b.wantQuiet("pause")
	if calls, _ := b.provider.count(); calls > 2*limit || standing.Total(eval.StateFailed) > 0 {
		t.Errorf("%d calls of a model that does not exist, %d runs failed; want at most those in flight, and none", calls, standing.Total(eval.StateFailed))
	}
	if n := log.count("provider p is paused for this evaluation"); n != 1 {
		t.Errorf("the pause is said %d times, want once", n)
	}
	known.Store(true)
	if _, err := b.enqueuer().Resume(t.Context(), b.id); err != nil {
		t.Fatal(err)
	}
	if standing := b.wait(); standing.Total(eval.StateSucceeded) != b.runs {
		t.Errorf("%d of %d runs succeeded", standing.Total(eval.StateSucceeded), b.runs)
	}
}
