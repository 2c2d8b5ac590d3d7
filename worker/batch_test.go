package worker

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

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

// TestBatchOutlivesItsWorker: the worker that submitted a batch goes, and another one takes it apart.
func TestBatchOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	f := newBatcher()
	open := f.hold()
	b, cfg := batched(t, f)
	b.submit(5, inBatches(1000))
	stop := b.start(cfg)
	b.waitCounted(1)
	stop()
	open()

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
	b, f := submittedUnanswered(t)
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
			b.submit(5, inBatches(8), func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
				s.Limits = append(s.Limits, ratelimit.Limit{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.EnqueuedTokens, Max: 1e9})
			})
			defer b.start(cfg)()
			b.waitCounted(3)
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
			if left := b.store.Client().ZCard(t.Context(), "{ef}:s:provider/p/enqueued_tokens").Val(); left > 0 {
				t.Errorf("%d batches hold tokens although their provider says that they have ended", left)
			}
		})
	}
}

// TestBatchDeadline: what no batch has answered in its time is asked one by one. The time holds for acceptance too: a
// machine that cannot submit within it gets twice as long.
func TestBatchDeadline(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	for deadline := time.Second; ; deadline *= 2 {
		f := newBatcher()
		f.ends = func(*fakeBatch) bool { return false }
		b, cfg := batched(t, f)
		b.submit(4, inBatches(1000), func(_ *eval.Evaluation, _ map[string]string, s *record.Settings) {
			s.Batch.Deadline = deadline
		})
		stop := b.start(cfg)
		b.wait()
		stop()
		b.wantEachOnce()
		if batches, _ := f.counts(); batches == 0 && deadline < time.Minute {
			continue
		}
		b.wantBatches(f, 1, b.runs)
		return
	}
}

// TestBatchAfterLoss: Redis loses its memory while a batch runs at the provider. Its run gets it back from the worker
// that knows it, and no other batch is submitted.
func TestBatchAfterLoss(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newBatcher()
	open := f.hold()
	b, cfg := batched(t, f)
	b.submit(5, inBatches(8))
	defer b.start(cfg)()
	b.waitCounted(3)
	if err := b.server.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.enqueuer().Submit(t.Context(), b.submission); err != nil {
		t.Fatal(err)
	}
	open()
	b.wait()
	b.wantEachOnce()
	b.wantBatches(f, 3, 0)
}

// TestBatchComesBackAfterItsEnd: Redis loses everything after a batch was taken apart. A worker that knows the batch, and
// not its end, gives it back to its run, and the one that has its answers records them again. Then the batch counts no
// longer.
func TestBatchComesBackAfterItsEnd(t *testing.T) {
	t.Parallel()
	f := newBatcher()
	b, cfg := batched(t, f)
	b.submit(5, inBatches(1000))
	defer b.start(cfg)()
	b.wait()
	b.wantNothingCounted()
	jobs := b.submitted()
	if len(jobs) != 1 {
		t.Fatalf("the results stream tells of %d batches, want 1", len(jobs))
	}

	b.store.Client().FlushAll(t.Context())
	b.resubmit(func(s *enqueue.Submission) {
		s.Settle = func(ctx context.Context) error {
			task, progress := store.WithJob(b.id, jobs[0])
			if _, err := b.store.RestoreProgress(ctx, task, progress); err != nil {
				return err
			}
			admin := ratelimit.NewAdmin(b.store.Client(), ratelimit.Config{})
			if err := admin.AssertBackground(ctx, jobs[0].ID, jobs[0].Lease, time.Hour); err != nil {
				return err
			}
			b.waitFor("every answer is recorded again", func(now store.Standing) bool { return now.Total(eval.StateSucceeded) == b.runs })
			return nil
		}
	})
	b.wait()
	b.wantEachOnce()
	b.wantBatches(f, 1, 0)
	b.wantNothingCounted()
}

// TestBatchCannotBeLookedFor: a batch may exist, and the provider fails when it is asked for it. No other is submitted.
func TestBatchCannotBeLookedFor(t *testing.T) {
	testrun.Slow(t) // a minute until it is looked for again
	t.Parallel()
	b, f := submittedUnanswered(t)

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

// TestBatchLookedForWithARevokedKey: the key is refused when a batch is looked for that may exist. That pauses its provider,
// as it does when any call is made, and no other batch is submitted when the provider is resumed.
func TestBatchLookedForWithARevokedKey(t *testing.T) {
	t.Parallel()
	b, f := submittedUnanswered(t)

	var valid atomic.Bool
	f.find = func() error {
		if valid.Load() {
			return nil
		}
		return &providers.Error{Class: providers.Auth, Status: 401, Message: "the key was revoked"}
	}
	defer b.start(b.batching(f, b.config()))()
	b.waitFor("the provider is paused", func(now store.Standing) bool { return now.Paused["p"].Class == providers.Auth })
	valid.Store(true)
	if _, err := b.enqueuer().Resume(t.Context(), b.id); err != nil {
		t.Fatal(err)
	}
	b.wait()
	b.wantEachOnce()
	b.wantBatches(f, 1, 0)
}

// TestBatchWithoutEndpoint: a worker whose provider has no batches leaves a batch to the others.
func TestBatchWithoutEndpoint(t *testing.T) {
	testrun.Slow(t) // the run waits in its queue
	t.Parallel()
	f := newBatcher()
	open := f.hold()
	b, cfg := batched(t, f)
	b.submit(5, inBatches(1000))
	stop := b.start(cfg)
	b.waitCounted(1)
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
	open()

	defer b.start(b.batching(f, b.config()))()
	b.wait()
	b.wantEachOnce()
	b.wantBatches(f, 1, 0)
}
