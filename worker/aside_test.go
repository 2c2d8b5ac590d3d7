package worker

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// named gives an evaluation a name and a model.
func named(name, model string) func(*eval.Evaluation, map[string]string, *record.Settings) {
	return func(e *eval.Evaluation, _ map[string]string, _ *record.Settings) {
		e.Name = name
		e.Judges = []eval.Judge{{Name: "p:" + model, Provider: "p", Model: model}}
	}
}

// While a model cools, runs of another model behind its runs in the same queue are made:
// also where the cooldown is short enough for a run to wait with its worker, and where
// another model may answer in its place once it has waited too long.
func TestCooldownOfOneModelHoldsUpNoOtherInItsQueue(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*eval.Evaluation, map[string]string, *record.Settings){
		"without a fallback": func(*eval.Evaluation, map[string]string, *record.Settings) {},
		"with a fallback": func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
			f := record.DefaultFallback
			f.Models, f.MaxRetries = []string{"p:instead"}, 1000
			s.Fallback = &f
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testrun.Eventually(t, "a cooldown that never ends", func() bool { return cooldownOfOneModel(t, change) })
		})
	}
}

// cooldownOfOneModel returns false if the machine stood still, and the cooldown ended for a moment.
func cooldownOfOneModel(t *testing.T, change func(*eval.Evaluation, map[string]string, *record.Settings)) bool {
	const cools = run.InPlace - time.Second
	var mu sync.Mutex
	var until time.Time // the model cools until then
	lapsed, called := false, false
	provider := &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if request.Model == "hot" {
			mu.Lock()
			called = true
			mu.Unlock()
		}
		return firstWins(ctx, n, request)
	}}
	b := setup(t, provider)
	ctx, limiter := t.Context(), ratelimit.New(store.Universal(b.store), ratelimit.Config{})
	hold := func() {
		began := time.Now()
		if err := limiter.Cool(ctx, ratelimit.Scope{Provider: "p", Model: "hot"}, cools); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		lapsed = lapsed || !until.IsZero() && time.Now().After(until)
		until = began.Add(cools)
	}
	hold()
	b.submit(5, named("hot", "hot"), change)
	first := b.runs
	held, stop := make(chan struct{}), make(chan struct{})
	go func() { // the cooldown never ends, and always looks short
		defer close(held)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
				hold()
			}
		}
	}()
	defer func() { close(stop); <-held }()
	testrun.Eventually(t, "the runs of the model that cools are in the queue", func() bool {
		return b.store.Client().LLen(ctx, "asynq:{p}:pending").Val() == int64(first)
	})
	b.submit(3, named("cold", "cold"))
	defer b.start(b.config())()
	b.wait()
	b.wantEachOnce()

	mu.Lock()
	defer mu.Unlock()
	if lapsed || time.Now().After(until) {
		return false
	}
	if called {
		t.Error("a model that cools was called")
	}
	return true
}

// Where a provider refuses each call of one evaluation, the one call that starts after a
// cooldown is of another evaluation in the same queue.
func TestAfterACooldownOthersAreTriedFirst(t *testing.T) {
	t.Parallel()
	refused := make(chan struct{}, 1000)
	provider := &fakeProvider{}
	provider.answer = func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if strings.Contains(request.Messages[len(request.Messages)-1].Content, "refuse me") {
			refused <- struct{}{}
			return nil, &providers.Error{Class: providers.RateLimited, Status: 429, Message: "too many"}
		}
		return firstWins(ctx, n, request)
	}
	b := setup(t, provider)
	b.submit(4, named("refused", "m"), atMost(1), func(e *eval.Evaluation, texts map[string]string, _ *record.Settings) {
		for i, d := range e.Documents {
			text := texts[d.Hash] + " refuse me"
			e.Documents[i].Hash, e.Documents[i].Bytes = eval.TextHash(text), len(text)
			texts[eval.TextHash(text)] = text
		}
	})
	testrun.Eventually(t, "its runs are in the queue", func() bool {
		return b.store.Client().LLen(t.Context(), "asynq:{p}:pending").Val() == 12
	})
	b.submit(2, named("fine", "m"), atMost(1))
	defer b.start(b.config())()
	b.waitFor("a run of the other evaluation has ended", func(s store.Standing) bool { return s.Total(eval.StateSucceeded) > 0 })
	// Each call after a cooldown that is refused makes the next one twice as long.
	t.Logf("%d calls were refused before", len(refused))
	if n := len(refused); n > 4 {
		t.Errorf("%d calls were refused before, want 4 at most", n)
	}
}
