package worker

import (
	"context"
	"sync"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// A call that is ended because its lease is lost is no failure of the run, nor an
// attempt: the run asks for another lease.
func TestRunOutlivesALostLease(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	var once sync.Once
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		lost := false
		once.Do(func() { lost = true })
		if !lost {
			return firstWins(ctx, n, request)
		}
		close(begun)
		<-ctx.Done()
		return nil, &providers.Error{Class: providers.Cancelled, Message: "given up", Err: context.Cause(ctx), MayBeBilled: true}
	}})
	b.submit(2, func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Limits = []ratelimit.Limit{{Kind: ratelimit.Concurrency, Max: 1}}
		s.Retry.MaxAttempts = 1
	})
	defer b.start(b.brief())()
	<-begun
	client := b.store.Client()
	leases := client.Keys(t.Context(), "{ef}:s:*").Val()
	if len(leases) == 0 {
		t.Fatal("no lease is held")
	}
	if err := client.Del(t.Context(), leases...).Err(); err != nil {
		t.Fatal(err)
	}
	b.wait()
	runs, calls := b.outcomes()
	for index, of := range runs {
		if len(of) != 1 || of[0].State != eval.StateSucceeded.String() || of[0].Attempts != 1 {
			t.Errorf("run %d: got %+v, want it succeeded once after 1 attempt", index, of)
		}
	}
	if len(calls) <= b.runs {
		t.Errorf("%d calls are recorded, want %d and the one that was lost", len(calls), b.runs)
	}
}
