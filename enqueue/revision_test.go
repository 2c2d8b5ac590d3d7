package enqueue

import (
	"context"
	"testing"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// A process that tops up rarely, because others hold the lock, does not end an
// evaluation by the plan that it remembers from before the last submission.
func TestTopUpFollowsAnEvaluationThatWasReopened(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := submission("reopened", 12) // 132 runs
	s.Settings.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Concurrency, Max: 4}}
	s.Settings.Limit = 60
	id := b.submit(s).ID
	stale := b.topUp(b.store)
	b.tick(stale)
	b.work(id, 60, 60)
	b.tick(b.topUp(b.store))
	if got := b.standing(id).Status; got != record.StatusDone {
		t.Fatalf("status %s after the first 60 runs, want done", got)
	}

	s.Settings.Limit = 0
	b.submit(s)
	b.tick(stale)
	if got := b.standing(id).Status; got != record.StatusActive {
		t.Errorf("status %s with 60 of 132 runs made, want active", got)
	}
	if len(b.limits.of[string(id)]) != 1 {
		t.Errorf("limits pinned while 72 runs are missing: %v, want one", b.limits.of)
	}
	for range 10 {
		b.tick(stale)
		b.pull("p", 100)
	}
	b.tick(stale)
	if got := b.standing(id); got.Status != record.StatusDone || got.Ended(0, "p") != 132 {
		t.Errorf("status %s with %d of 132 runs; want done", got.Status, got.Ended(0, "p"))
	}
}

// The same for an evaluation that was deleted and submitted again: the record is
// another, and so may be the names of its queues.
func TestTopUpFollowsAnEvaluationThatWasReplaced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := submission("replaced", 5) // 20 runs
	s.Settings.Limit = 6
	id := b.submit(s).ID
	stale := b.topUp(b.store)
	b.tick(stale)
	if err := b.enqueuer(b.store).Delete(t.Context(), id, true); err != nil {
		t.Fatal(err)
	}
	s.Settings.Limit = 0
	s.Settings.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Evaluation: string(id)}, Kind: ratelimit.Concurrency, Max: 2}}
	queue := b.submit(s).Queues[0]
	if queue == "p" {
		t.Fatal("the evaluation has no queue of its own, so the test shows nothing")
	}
	for range 5 {
		b.tick(stale)
		b.pull(queue, 100)
	}
	b.tick(stale)
	if got := b.standing(id); got.Status != record.StatusDone || got.Ended(0, queue) != 20 {
		t.Errorf("status %s with %d of 20 runs; want done", got.Status, got.Ended(0, queue))
	}
}

// A program of the version before raises no revision. What it submits is not ended by
// an older plan either.
func TestTopUpFollowsAnEvaluationReopenedByTheVersionBefore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := submission("before", 5) // 20 runs
	s.Settings.Limit = 6
	id := b.submit(s).ID
	stale := b.topUp(b.store)
	b.tick(stale)
	b.work(id, 6, 6)
	b.tick(b.topUp(b.store))
	s.Settings.Limit = 0
	b.submit(s)
	if err := b.store.Client().HDel(t.Context(), b.store.Keys().Record(id), "revision").Err(); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		b.tick(stale)
		b.pull("p", 100)
	}
	b.tick(stale)
	if got := b.standing(id); got.Status != record.StatusDone || got.Ended(0, "p") != 20 {
		t.Errorf("status %s with %d of 20 runs; want done", got.Status, got.Ended(0, "p"))
	}
}

// A push that was begun before failed runs were retried does not move the cursor
// past them: the cursor is where it was, at the start, but the runs are others.
func TestPushBegunBeforeARetryDoesNotMoveTheCursor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.submit(submission("retried", 5)).ID // 20 runs
	b.fail(id, 3)
	r, err := b.store.WithChoices(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	retry := func(generation int) {
		t.Helper()
		failed := map[int][]store.Failed{0: {{Index: 3, Generation: generation, Queue: "p"}}}
		if n, err := b.store.Retry(t.Context(), r, 0, failed[0]); err != nil || n != 1 {
			t.Fatalf("Retry = %d, %v; want 1 run", n, err)
		}
	}
	retry(0) // the cursor is at 0 now
	before, err := b.store.Evaluation(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	b.failGeneration(id, 3, 1)
	retry(1) // and again
	moved, err := b.store.Advance(t.Context(), before, record.CursorField(0, "p", false), 0, 20)
	if err != nil || moved {
		t.Errorf("Advance by a record read before the retry = %v, %v; want it refused", moved, err)
	}
	now, err := b.store.Evaluation(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if moved, err := b.store.Advance(t.Context(), now, record.CursorField(0, "p", false), 0, 20); err != nil || !moved {
		t.Errorf("Advance by the record as it is = %v, %v; want it moved", moved, err)
	}
}

func (b *bench) tick(topUp *TopUp) {
	b.t.Helper()
	if err := topUp.Tick(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) fail(id eval.ID, index int) { b.t.Helper(); b.failGeneration(id, index, 0) }

func (b *bench) failGeneration(id eval.ID, index, generation int) {
	b.t.Helper()
	run := record.Run{Index: index, Generation: generation, Kind: eval.KindPairwise, Queue: "p"}
	if once, err := b.store.Record(context.WithoutCancel(b.t.Context()), id, eval.StateFailed, run, nil); err != nil || !once {
		b.t.Fatalf("record a failure: %v, %v", once, err)
	}
}
