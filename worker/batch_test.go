package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// batcher is a provider in the test's own process that answers batches, too, and counts them by itself.
type batcher struct {
	fakeProvider
	bounds providers.BatchBounds
	// ends reports whether a batch has ended when it is polled.
	ends func(b *fakeBatch) bool
	// line changes the answer to a request of a batch; nil: it stays.
	line func(id string, result *providers.Result, err error) (*providers.Result, error)
	// submitted is called after a batch was made; its error is returned instead of the batch's ID.
	submitted func(b *fakeBatch) error

	// find is called before a batch is looked for; its error is returned.
	find func() error

	batches []*fakeBatch
}

// fakeBatch is a batch that was submitted.
type fakeBatch struct {
	name      string
	requests  []providers.BatchRequest
	polls     int
	cancelled bool
	failure   *providers.Error
	at        time.Time
}

func newBatcher() *batcher {
	b := &batcher{bounds: providers.BatchBounds{Requests: 10_000, Bytes: 100 << 20}, ends: func(*fakeBatch) bool { return true }}
	b.answer = firstWins
	return b
}

func (f *batcher) BatchBounds() providers.BatchBounds { return f.bounds }

func (f *batcher) SubmitBatch(_ context.Context, _, name string, requests []providers.BatchRequest) (string, error) {
	if err := providers.CheckBatch(name, requests, f.bounds); err != nil {
		return "", err
	}
	if err := requests[0].Request.Ready(); err != nil {
		return "", &providers.Error{Class: providers.Cancelled, Message: "not ready", Err: err}
	}
	f.mu.Lock()
	b := &fakeBatch{name: name, requests: requests, at: time.Now()}
	f.batches = append(f.batches, b)
	id, submitted := fmt.Sprintf("batch_%d", len(f.batches)-1), f.submitted
	f.mu.Unlock()
	if submitted != nil {
		if err := submitted(b); err != nil {
			return "", err
		}
	}
	return id, nil
}

func (f *batcher) FindBatch(_ context.Context, _, name string, since time.Time, requests int) (string, error) {
	if f.find != nil {
		if err := f.find(); err != nil {
			return "", err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, b := range f.batches {
		if b.name == name && !b.at.Before(since) && len(b.requests) == requests {
			return fmt.Sprintf("batch_%d", i), nil
		}
	}
	return "", nil
}

func (f *batcher) of(id string) *fakeBatch {
	var i int
	if _, err := fmt.Sscanf(id, "batch_%d", &i); err != nil || i >= len(f.batches) {
		return nil
	}
	return f.batches[i]
}

func (f *batcher) PollBatch(_ context.Context, _, id string) (providers.BatchState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.of(id)
	if b == nil {
		return providers.BatchState{}, &providers.Error{Class: providers.Lost, Message: "unknown batch"}
	}
	b.polls++
	ended := b.cancelled || b.failure != nil || f.ends(b)
	return providers.BatchState{Ended: ended, Total: len(b.requests), Failure: b.failure}, nil
}

func (f *batcher) BatchAnswers(
	ctx context.Context, _, id string, each func(string, *providers.Result, error) error,
) error {
	f.mu.Lock()
	b, line := f.of(id), f.line
	f.mu.Unlock()
	for _, request := range b.requests {
		var result *providers.Result
		var err error
		if b.cancelled {
			err = &providers.Error{Class: providers.Cancelled, Message: "cancelled"}
		} else if result, err = firstWins(ctx, 0, request.Request); result != nil {
			result.Usage.Tier = providers.TierBatch
		}
		if line != nil {
			if result, err = line(request.ID, result, err); result == nil && err == nil {
				continue // the provider leaves it out
			}
		}
		if err := each(request.ID, result, err); err != nil {
			return err
		}
	}
	return nil
}

func (f *batcher) CancelBatch(_ context.Context, _, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of(id).cancelled = true
	return nil
}

// counts returns how many batches were submitted, and how many requests they had.
func (f *batcher) counts() (batches, requests int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.batches {
		requests += len(b.requests)
	}
	return len(f.batches), requests
}

// batched is a bench whose provider answers batches of up to so many runs.
func batched(t *testing.T, f *batcher) (*bench, Config) {
	t.Helper()
	b := setup(t, &f.fakeProvider)
	return b, b.batching(f, b.config())
}

// batching returns a worker's configuration with a provider that answers batches.
func (b *bench) batching(f *batcher, cfg Config) Config {
	cfg.Endpoints = map[string]providers.Endpoint{"p": {Provider: f, Key: "k", Capabilities: func(string) providers.Capabilities {
		return providers.Capabilities{Batch: true, JSON: providers.JSONSchema}
	}}}
	return cfg
}

// inBatches asks in batches of up to so many runs.
func inBatches(runs int) func(*eval.Evaluation, map[string]string, *record.Settings) {
	return func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Batch = &record.Batch{Models: []string{"p:m"}, Runs: runs, Deadline: time.Hour}
	}
}

// wantBatches wants so many batches and calls outside of them at the provider, and every run asked once in a batch.
func (b *bench) wantBatches(f *batcher, batches, calls int) {
	b.t.Helper()
	got, requests := f.counts()
	if alone, _ := f.count(); got != batches || requests != b.runs || alone != calls {
		b.t.Errorf("%d batches with %d requests, and %d calls; want %d with %d, and %d", got, requests, alone, batches, b.runs, calls)
	}
	seen := map[string]bool{}
	for _, batch := range f.batches {
		for _, request := range batch.requests {
			if seen[request.ID] {
				b.t.Errorf("request %s was submitted twice", request.ID)
			}
			seen[request.ID] = true
		}
	}
}

// wantNothingCounted wants that no batch counts under the limits any more.
func (b *bench) wantNothingCounted() {
	b.t.Helper()
	testrun.Eventually(b.t, "no batch counts under the limits", func() bool {
		return b.store.Client().HLen(b.t.Context(), "{ef}:background").Val() == 0
	})
}

// TestBatches: the runs of an evaluation are asked in few batches, each submitted once, and each answer becomes the
// record of its run, with a call of its own at the price of batches.
func TestBatches(t *testing.T) {
	t.Parallel()
	f := newBatcher()
	f.ends = func(b *fakeBatch) bool { return b.polls > 1 }
	b, cfg := batched(t, f)
	price := providers.Price{Rates: providers.Rates{Input: 10, Output: 100}, Tiers: map[string]float64{providers.TierBatch: 0.5}}
	b.submit(12, inBatches(50), func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Prices = map[string]providers.Price{"p:m": price}
		s.Limits = nil
	})
	defer b.start(cfg)()
	b.wait()
	b.wantEachOnce()
	b.wantBatches(f, 3, 0) // 132 runs
	b.wantNothingCounted()

	runs, calls := b.outcomes()
	if len(calls) != b.runs {
		t.Errorf("%d calls are recorded, want %d", len(calls), b.runs)
	}
	for _, call := range calls {
		if call.Usage.CostUSD == nil || *call.Usage.CostUSD != (10*10e-6+2*100e-6)/2 {
			t.Fatalf("call %s cost %v, want half of the price", call.ID, call.Usage.CostUSD)
		}
		if ended := runs[call.Index][0]; ended.Winner == "" || ended.AnsweredBy != "p:m" {
			t.Fatalf("run %d ended with %+v", call.Index, ended)
		}
	}
}

// TestBatchTakenApart: what a batch does not answer well is asked again, run by run, and only that.
func TestBatchTakenApart(t *testing.T) {
	t.Parallel()
	f := newBatcher()
	wrong := []func() (*providers.Result, error){ // by place in the batch; the first leads it
		0: func() (*providers.Result, error) { return &providers.Result{Text: "no JSON"}, nil },
		3: func() (*providers.Result, error) {
			return nil, &providers.Error{Class: providers.Transient, Message: "try again"}
		},
		5: func() (*providers.Result, error) { return nil, nil },
		7: func() (*providers.Result, error) {
			return nil, &providers.Error{Class: providers.Cancelled, Message: "expired"}
		},
	}
	f.line = func(id string, result *providers.Result, err error) (*providers.Result, error) {
		for place, request := range f.batches[0].requests[:len(wrong)] {
			if request.ID == id && wrong[place] != nil {
				return wrong[place]()
			}
		}
		return result, err
	}
	b, cfg := batched(t, f)
	b.submit(5, inBatches(1000))
	defer b.start(cfg)()
	standing := b.wait()
	b.wantEachOnce()
	b.wantBatches(f, 1, 4)
	if n := standing.Total(eval.StateFailed); n > 0 {
		t.Errorf("%d runs failed", n)
	}
}

// TestBatchWithoutCalls: runs whose winner is decided without a call, the first of their group among them, are in no
// batch and hold up no other.
func TestBatchWithoutCalls(t *testing.T) {
	t.Parallel()
	f := newBatcher()
	b, cfg := batched(t, f)
	b.submit(6, inBatches(1000), func(e *eval.Evaluation, texts map[string]string, _ *record.Settings) {
		for i := range e.Documents { // all but two have the same text
			if i < 4 {
				e.Documents[i].Hash, e.Documents[i].Bytes = e.Documents[0].Hash, e.Documents[0].Bytes
			}
		}
		e.Pairwise.Ties = true
	})
	defer b.start(cfg)()
	b.wait()
	b.wantEachOnce()
	batches, requests := f.counts()
	if alone, _ := f.count(); batches != 1 || requests != b.runs-4*3 || alone != 0 {
		t.Errorf("%d batches with %d requests, and %d calls; want 1 with %d, and 0", batches, requests, alone, b.runs-4*3)
	}
}

// TestBatchAnswersOfOthers: answers to requests that the batch did not have change nothing.
func TestBatchAnswersOfOthers(t *testing.T) {
	t.Parallel()
	f := newBatcher()
	names := []string{"r0-99999-0", "r1-0-0", "r0--1-0", "r0-0-1", "x", ""}
	f.line = func(id string, result *providers.Result, err error) (*providers.Result, error) { return result, err }
	b, cfg := batched(t, f)
	hostile := &hostileBatcher{f, names}
	cfg.Endpoints["p"] = providers.Endpoint{Provider: hostile, Key: "k", Capabilities: cfg.Endpoints["p"].Capabilities}
	b.submit(4, inBatches(1000))
	defer b.start(cfg)()
	b.wait()
	b.wantEachOnce()
	b.wantBatches(f, 1, 0)
	if runs, _ := b.outcomes(); len(runs) != b.runs {
		t.Errorf("%d runs are recorded, want %d", len(runs), b.runs)
	}
}

// hostileBatcher answers requests that nobody made, each true answer twice, and the second one wrong.
type hostileBatcher struct {
	*batcher
	names []string
}

func (h *hostileBatcher) BatchAnswers(ctx context.Context, key, id string, each func(string, *providers.Result, error) error) error {
	for _, name := range h.names {
		if err := each(name, &providers.Result{Text: "{}", Finish: providers.FinishStop}, nil); err != nil {
			return err
		}
	}
	return h.batcher.BatchAnswers(ctx, key, id, func(name string, result *providers.Result, err error) error {
		if err := each(name, result, err); err != nil {
			return err
		}
		return each(name, &providers.Result{Text: "{}", Finish: providers.FinishStop}, nil)
	})
}

// TestBatchOutlivesItsWorker: the worker that submitted a batch goes, and another one takes it apart.
func TestBatchOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	f := newBatcher()
	var mu sync.Mutex
	open := false
	f.ends = func(*fakeBatch) bool {
		mu.Lock()
		defer mu.Unlock()
		return open
	}
	b, cfg := batched(t, f)
	b.submit(5, inBatches(1000))
	stop := b.start(cfg)
	b.waitFor("a batch is submitted", func(store.Standing) bool {
		return b.store.Client().HLen(t.Context(), "{ef}:background").Val() > 0
	})
	stop()
	mu.Lock()
	open = true
	mu.Unlock()

	defer b.start(b.batching(f, b.config()))()
	b.wait()
	b.wantEachOnce()
	b.wantBatches(f, 1, 0)
	b.wantNothingCounted()
}

// TestBatchSubmittedOnce: a worker dies, or hears nothing, between a batch's submission and the answer to it. The next
// pull finds the batch under its name, and submits no other.
func TestBatchSubmittedOnce(t *testing.T) {
	testrun.Slow(t) // the time in which another worker could still be submitting
	t.Parallel()
	f := newBatcher()
	lost := 0
	f.submitted = func(*fakeBatch) error {
		if lost++; lost > 1 {
			return nil
		}
		return &providers.Error{Class: providers.Transient, MayBeBilled: true, Message: "the connection was cut"}
	}
	b, cfg := batched(t, f)
	b.submit(5, inBatches(1000))
	defer b.start(cfg)()
	b.wait()
	b.wantEachOnce()
	b.wantBatches(f, 1, 0)
}

// TestBatchFoundByAnother: a worker goes while it does not know whether its batch was submitted. The next one finds the
// batch.
func TestBatchFoundByAnother(t *testing.T) {
	testrun.Slow(t) // the run waits in its queue
	t.Parallel()
	f := newBatcher()
	f.submitted = func(*fakeBatch) error {
		return &providers.Error{Class: providers.Transient, MayBeBilled: true, Message: "the connection was cut"}
	}
	b, cfg := batched(t, f)
	b.submit(5, inBatches(1000))
	stop := b.start(cfg)
	testrun.Eventually(t, "a batch is submitted", func() bool { n, _ := f.counts(); return n > 0 })
	stop()

	var phase, leader, generation int
	if _, err := fmt.Sscanf(f.batches[0].requests[0].ID, "r%d-%d-%d", &phase, &leader, &generation); err != nil {
		t.Fatal(err)
	}
	progress := b.store.Keys().Progress(eval.RunID{Evaluation: b.id, Phase: phase, Index: leader})
	begun := b.store.Client().HGet(t.Context(), progress, record.ProgressSubmitting).Val()
	if begun == "" || begun == "0" {
		t.Fatalf("the run's progress says %q of its submission", begun)
	}
	early := time.Now().Add(-5 * time.Minute).UnixMilli() // when another worker can no longer be submitting it
	b.store.Client().HSet(t.Context(), progress, record.ProgressSubmitting, early)
	defer b.start(b.batching(f, b.config()))()
	b.wait()
	b.wantEachOnce()
	b.wantBatches(f, 1, 0)
}

// TestBatchRefused: a batch that its provider fails as a whole is submitted again, and after max_attempts its runs are
// asked one by one.
func TestBatchRefused(t *testing.T) {
	t.Parallel()
	f := newBatcher()
	f.submitted = func(b *fakeBatch) error {
		b.failure = &providers.Error{Class: providers.Transient, Message: "the file cannot be read"}
		return nil
	}
	b, cfg := batched(t, f)
	b.submit(5, inBatches(1000))
	defer b.start(cfg)()
	standing := b.wait()
	b.wantEachOnce()
	batches, _ := f.counts()
	if alone, _ := f.count(); batches != 3 || alone != b.runs || standing.Total(eval.StateFailed) > 0 {
		t.Errorf("%d batches, %d calls, %d failed runs; want 3, %d, 0", batches, alone, standing.Total(eval.StateFailed), b.runs)
	}
	b.wantNothingCounted()
}

// TestBatchInParts: a group that is too large for one batch is asked in several, each run in one of them.
func TestBatchInParts(t *testing.T) {
	testrun.Slow(t) // one part after another
	t.Parallel()
	f := newBatcher()
	f.bounds.Requests = 7
	b, cfg := batched(t, f)
	b.submit(5, inBatches(1000)) // 20 runs
	defer b.start(cfg)()
	b.wait()
	b.wantEachOnce()
	b.wantBatches(f, 3, 0)
}

// TestBatchUnderBudget: a batch is not larger than the budget has room for, and what is left pays for more.
func TestBatchUnderBudget(t *testing.T) {
	testrun.Slow(t) // one batch after another
	t.Parallel()
	f := newBatcher()
	b, cfg := batched(t, f)
	price := providers.Price{Rates: providers.Rates{Input: 10, Output: 100}, Tiers: map[string]float64{providers.TierBatch: 0.5}}
	b.submit(5, inBatches(1000), func(e *eval.Evaluation, _ map[string]string, s *record.Settings) {
		e.Judges[0].Overrides = map[string]any{"max_completion_tokens": 100}
		s.Prices = map[string]providers.Price{"p:m": price}
	}, func(e *eval.Evaluation, _ map[string]string, s *record.Settings) {
		e.Normalize()
		s.Limits = []ratelimit.Limit{ratelimit.Budget(string(e.ID()), ratelimit.Dollar/20)}
	})
	limits := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{})
	if err := limits.TellSpent(t.Context(), string(b.id), "", 0); err != nil {
		t.Fatal(err)
	}
	defer b.start(cfg)()
	b.wait()
	b.wantEachOnce()
	batches, requests := f.counts()
	if batches < 2 || requests != b.runs {
		t.Errorf("%d batches with %d requests; want several, with %d", batches, requests, b.runs)
	}
}

// TestBatchCancelled: an evaluation that is cancelled cancels its batches at the provider, also if it was paused before,
// and workers had dropped its tasks.
func TestBatchCancelled(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	for name, paused := range map[string]bool{"active": false, "paused": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newBatcher()
			f.ends = func(*fakeBatch) bool { return false }
			b, cfg := batched(t, f)
			b.submit(5, inBatches(8))
			defer b.start(cfg)()
			b.waitFor("all batches are submitted", func(store.Standing) bool {
				n, _ := f.counts()
				return n == 3 && b.store.Client().HLen(t.Context(), "{ef}:background").Val() == 3
			})
			if paused {
				if _, err := b.enqueuer().Pause(t.Context(), b.id); err != nil {
					t.Fatal(err)
				}
				testrun.Eventually(t, "its tasks are gone", func() bool {
					keys, err := b.store.Client().Keys(t.Context(), "asynq:{p}:t:*").Result()
					return err == nil && len(keys) == 0
				})
			}
			if _, err := b.enqueuer().Cancel(t.Context(), b.id); err != nil {
				t.Fatal(err)
			}
			testrun.Eventually(t, "its batches are cancelled", func() bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				return !slices.ContainsFunc(f.batches, func(of *fakeBatch) bool { return !of.cancelled })
			})
			b.wantNothingCounted()
		})
	}
}

// TestBatchDeadline: what no batch has answered in its time is asked one by one.
func TestBatchDeadline(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newBatcher()
	f.ends = func(*fakeBatch) bool { return false }
	b, cfg := batched(t, f)
	b.submit(4, inBatches(1000), func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
		s.Batch.Deadline = time.Second
	})
	defer b.start(cfg)()
	b.wait()
	b.wantEachOnce()
	b.wantBatches(f, 1, b.runs)
}

// TestBatchAfterLoss: Redis loses its memory while a batch runs at the provider. Its run gets it back from the worker
// that knows it, and no other batch is submitted.
func TestBatchAfterLoss(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newBatcher()
	var mu sync.Mutex
	open := false
	f.ends = func(*fakeBatch) bool {
		mu.Lock()
		defer mu.Unlock()
		return open
	}
	b, cfg := batched(t, f)
	b.submit(5, inBatches(8))
	defer b.start(cfg)()
	b.waitFor("all batches are submitted", func(store.Standing) bool {
		return b.store.Client().HLen(t.Context(), "{ef}:background").Val() == 3
	})
	if err := b.server.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.enqueuer().Submit(t.Context(), b.submission); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	open = true
	mu.Unlock()
	b.wait()
	b.wantEachOnce()
	b.wantBatches(f, 3, 0)
}

// leaderOf returns the key of the progress of the run that leads a batch.
func (b *bench) leaderOf(batch *fakeBatch) string {
	b.t.Helper()
	var phase, leader, generation int
	if _, err := fmt.Sscanf(batch.requests[0].ID, "r%d-%d-%d", &phase, &leader, &generation); err != nil {
		b.t.Fatal(err)
	}
	return b.store.Keys().Progress(eval.RunID{Evaluation: b.id, Phase: phase, Index: leader})
}

// TestBatchCannotBeLookedFor: a batch may exist, and the provider fails when it is asked for it. No other is submitted.
func TestBatchCannotBeLookedFor(t *testing.T) {
	testrun.Slow(t) // a minute until it is looked for again
	t.Parallel()
	f := newBatcher()
	f.submitted = func(*fakeBatch) error {
		return &providers.Error{Class: providers.Transient, MayBeBilled: true, Message: "the connection was cut"}
	}
	b, cfg := batched(t, f)
	b.submit(5, inBatches(1000))
	stop := b.start(cfg)
	testrun.Eventually(t, "a batch is submitted", func() bool { n, _ := f.counts(); return n > 0 })
	stop()
	early := time.Now().Add(-5 * time.Minute).UnixMilli() // when another worker can no longer be submitting it
	b.store.Client().HSet(t.Context(), b.leaderOf(f.batches[0]), record.ProgressSubmitting, early)

	failures := 0
	f.find = func() error {
		if failures++; failures > 1 {
			return nil
		}
		return &providers.Error{Class: providers.Transient, Status: 503, Message: "try again"}
	}
	defer b.start(b.batching(f, b.config()))()
	b.wait()
	b.wantEachOnce()
	b.wantBatches(f, 1, 0)
}

// TestBatchWithoutEndpoint: a worker whose provider has no batches leaves a batch to the others.
func TestBatchWithoutEndpoint(t *testing.T) {
	testrun.Slow(t) // the run waits in its queue
	t.Parallel()
	f := newBatcher()
	var mu sync.Mutex
	open := false
	f.ends = func(*fakeBatch) bool {
		mu.Lock()
		defer mu.Unlock()
		return open
	}
	b, cfg := batched(t, f)
	b.submit(5, inBatches(1000))
	stop := b.start(cfg)
	testrun.Eventually(t, "the batch counts", func() bool {
		return b.store.Client().HLen(t.Context(), "{ef}:background").Val() > 0
	})
	stop()
	leader := b.leaderOf(f.batches[0])

	without := b.config()
	without.Endpoints = map[string]providers.Endpoint{"p": {Provider: &f.fakeProvider, Key: "k"}}
	stop = b.start(without)
	before := b.store.Client().HGet(t.Context(), leader, record.ProgressWriter).Val()
	testrun.Eventually(t, "the worker has had the run", func() bool {
		return b.store.Client().HGet(t.Context(), leader, record.ProgressWriter).Val() != before
	})
	stop()
	mu.Lock()
	open = true
	mu.Unlock()

	defer b.start(b.batching(f, b.config()))()
	b.wait()
	b.wantEachOnce()
	b.wantBatches(f, 1, 0)
}
