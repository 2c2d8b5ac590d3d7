package worker

import (
	"context"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

// A model that does not answer takes every slot that it may have, and keeps it. The
// runs of another model end all the same.
func TestASlowModelLeavesSlotsToAnother(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	slow := &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		select {
		case <-release:
			return firstWins(ctx, n, request)
		case <-ctx.Done():
			return nil, &providers.Error{Class: providers.ClassOf(ctx.Err()), Message: "given up", Err: ctx.Err()}
		}
	}}
	quick := &fakeProvider{answer: firstWins}
	b := setup(t, slow)
	b.submit(8, func(e *eval.Evaluation, _ map[string]string, _ *record.Settings) {
		e.Judges = append(e.Judges, eval.Judge{Name: "q:m", Provider: "q", Model: "m"})
	})
	cfg := b.config()
	cfg.Endpoints["q"] = providers.Endpoint{Provider: quick, Key: "k"}
	defer b.start(cfg)()
	each := b.runs / 2 // 56 for 20 slots
	b.waitFor("the quick model's runs have ended", func(s store.Standing) bool { return s.Total(eval.StateSucceeded) == each })
	if calls, most := slow.count(); calls > cfg.Slots || calls != most {
		t.Errorf("%d calls of the slow model, want at most %d, all in flight", calls, cfg.Slots)
	}
	close(release)
	b.wait()
	b.wantEachOnce()
}
