package worker

import (
	"context"

	"testing"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/record"
	"github.com/evalfleet/evalfleet/store"
)

// begin pulls what it may of a queue's endless work, n tasks at most, and starts it.
func begin(t *testing.T, b *budget, queue string, n int) (begun int) {
	t.Helper()
	for begun < n {
		got := take(t, b, queue)
		if got == 0 {
			return begun
		}
		b.pulled(queue, got, 1000)
		for range got {
			b.admitted(queue, false)
			b.move(queue, ready, flying)
		}
		begun += got
	}
	return begun
}

// take reserves what may be pulled now.
func take(t *testing.T, b *budget, queue string) int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // Reserve looks once before it waits
	n, _ := b.Reserve(ctx, queue, pullBatch)
	return n
}

func TestAQueueAloneUsesAllSlots(t *testing.T) {
	t.Parallel()
	b := newBudget(100)
	if got := begin(t, b, "slow", 1000); got != 110 {
		t.Errorf("a queue alone holds %d tasks, want 100 and a tenth", got)
	}
}

func TestASlotIsKeptForAQueueWithoutWork(t *testing.T) {
	t.Parallel()
	b := newBudget(100)
	now := time.Now()
	b.now = func() time.Time { return now }
	b.allow("slow", 1000)
	b.allow("quick", 1000) // served, and empty
	if got := begin(t, b, "slow", 1000); got != 99 {
		t.Errorf("the slow queue holds %d of 100 slots, want one left", got)
	}
	if got := begin(t, b, "quick", 1); got != 1 {
		t.Errorf("the quick queue begins %d, want its first run at once", got)
	}
	b.leave("quick", flying)
	b.pulled("quick", 0, 0)
	now = now.Add(newcomerTime)
	if got := begin(t, b, "slow", 1000); got == 0 {
		t.Error("the slot is still kept a minute later")
	}
}

// Each time that a call of the slow queue ends its slot goes to the newcomer, until
// both have their share; and the slow one does not get it back from a short call.
func TestANewcomerGetsItsShare(t *testing.T) {
	t.Parallel()
	b := newBudget(100)
	slow, quick := begin(t, b, "slow", 1000), 0
	for quick < 50 && slow > 0 {
		quick += begin(t, b, "quick", 1000)
		b.leave("slow", flying)
		slow += begin(t, b, "slow", 1000) - 1
	}
	if quick < 50 || slow < 50 {
		t.Fatalf("the newcomer holds %d and the other %d of 100 slots, want 50 each", quick, slow)
	}
	for range 1000 { // short calls end, and the next are pulled a moment later
		b.leave("quick", flying)
		quick--
		slow += begin(t, b, "slow", 1000)
		quick += begin(t, b, "quick", 1000)
	}
	if quick < 45 || slow < 50 {
		t.Errorf("after 1,000 short calls the newcomer holds %d and the other %d, want about 50 each", quick, slow)
	}
}

// What one queue cannot use of its share is not kept for it.
func TestALimitedQueueLeavesItsShare(t *testing.T) {
	t.Parallel()
	b := newBudget(100)
	b.allow("limited", 5)
	for range 2 {
		for range take(t, b, "limited") {
			b.admitted("limited", false)
			b.move("limited", ready, flying)
		}
	}
	b.pulled("limited", 0, 1000)
	if got := begin(t, b, "slow", 1000); got < 85 {
		t.Errorf("beside a queue of at most 5 calls the other holds %d of 100 slots, want nearly all others", got)
	}
}

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
	cfg.Endpoints["q"] = Endpoint{Provider: quick, Key: "k"}
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
