package share

import (
	"context"
	"testing"
	"time"
)

// begin pulls what it may of a queue's endless work, n tasks at most, and starts it.
func begin(t *testing.T, b *Shares, queue string, n int) (begun int) {
	t.Helper()
	for begun < n {
		got := take(t, b, queue)
		if got == 0 {
			return begun
		}
		b.Pulled(queue, got, 1000)
		for range got {
			b.Admitted(queue, false)
			b.Move(queue, Ready, Flying)
		}
		begun += got
	}
	return begun
}

// take reserves what may be pulled now.
func take(t *testing.T, b *Shares, queue string) int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // Reserve looks once before it waits
	n, _ := b.Reserve(ctx, queue, Batch)
	return n
}

func TestAQueueAloneUsesAllSlots(t *testing.T) {
	t.Parallel()
	b := New(100)
	if got := begin(t, b, "slow", 1000); got != 110 {
		t.Errorf("a queue alone holds %d tasks, want 100 and a tenth", got)
	}
}

func TestASlotIsKeptForAQueueWithoutWork(t *testing.T) {
	t.Parallel()
	b := New(100)
	now := time.Now()
	b.now = func() time.Time { return now }
	b.Allow("slow", 1000)
	b.Allow("quick", 1000) // served, and empty
	if got := begin(t, b, "slow", 1000); got != 99 {
		t.Errorf("the slow queue holds %d of 100 slots, want one left", got)
	}
	if got := begin(t, b, "quick", 1); got != 1 {
		t.Errorf("the quick queue begins %d, want its first run at once", got)
	}
	b.Leave("quick", Flying)
	b.Pulled("quick", 0, 0)
	now = now.Add(newcomerTime)
	if got := begin(t, b, "slow", 1000); got == 0 {
		t.Error("the slot is still kept a minute later")
	}
}

// Each time that a call of the slow queue ends its slot goes to the newcomer, until
// both have their share; and the slow one does not get it back from a short call.
func TestANewcomerGetsItsShare(t *testing.T) {
	t.Parallel()
	b := New(100)
	slow, quick := begin(t, b, "slow", 1000), 0
	for quick < 50 && slow > 0 {
		quick += begin(t, b, "quick", 1000)
		b.Leave("slow", Flying)
		slow += begin(t, b, "slow", 1000) - 1
	}
	if quick < 50 || slow < 50 {
		t.Fatalf("the newcomer holds %d and the other %d of 100 slots, want 50 each", quick, slow)
	}
	for range 1000 { // short calls end, and the next are pulled a moment later
		b.Leave("quick", Flying)
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
	b := New(100)
	b.Allow("limited", 5)
	for range 2 {
		for range take(t, b, "limited") {
			b.Admitted("limited", false)
			b.Move("limited", Ready, Flying)
		}
	}
	b.Pulled("limited", 0, 1000)
	if got := begin(t, b, "slow", 1000); got < 85 {
		t.Errorf("beside a queue of at most 5 calls the other holds %d of 100 slots, want nearly all others", got)
	}
}
