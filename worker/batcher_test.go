package worker

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
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

// hold keeps the provider's batches from ending until open is called.
func (f *batcher) hold() (open func()) {
	var opened atomic.Bool
	f.ends = func(*fakeBatch) bool { return opened.Load() }
	return func() { opened.Store(true) }
}

// loses makes the provider's answers to submissions get lost after the batch was made.
func (f *batcher) loses() {
	f.submitted = func(*fakeBatch) error {
		return &providers.Error{Class: providers.Transient, MayBeBilled: true, Message: "the connection was cut"}
	}
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

// batched returns a bench whose provider answers batches of up to so many runs.
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

// waitCounted waits until so many batches count under the limits.
func (b *bench) waitCounted(batches int64) {
	b.t.Helper()
	testrun.Eventually(b.t, fmt.Sprintf("%d batches count under the limits", batches), func() bool {
		return b.store.Client().HLen(b.t.Context(), "{ef}:background").Val() == batches
	})
}

// submittedUnanswered returns a bench whose worker has submitted a batch, got no answer, and stopped, long ago.
func submittedUnanswered(t *testing.T) (*bench, *batcher) {
	t.Helper()
	f := newBatcher()
	f.loses()
	b, cfg := batched(t, f)
	b.submit(5, inBatches(1000))
	stop := b.start(cfg)
	testrun.Eventually(t, "a batch is submitted", func() bool { n, _ := f.counts(); return n > 0 })
	stop()
	b.submittedLongAgo(f.batches[0])
	return b, f
}

// submittedLongAgo makes the submission of a batch so old that no other worker can be at it.
func (b *bench) submittedLongAgo(batch *fakeBatch) {
	b.t.Helper()
	leader, client := b.leaderOf(batch), b.store.Client()
	if begun := client.HGet(b.t.Context(), leader, record.ProgressSubmitting).Val(); begun == "" || begun == "0" {
		b.t.Fatalf("the run's progress says %q of its submission", begun)
	}
	client.HSet(b.t.Context(), leader, record.ProgressSubmitting, time.Now().Add(-5*time.Minute).UnixMilli())
}

// wantNothingCounted wants that no batch counts under the limits any more.
func (b *bench) wantNothingCounted() {
	b.t.Helper()
	b.waitCounted(0)
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

// hostileBatcher sends answers to requests that do not exist, and a second, wrong answer to each request.
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
