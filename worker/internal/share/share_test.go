package share

import (
	"context"
	"testing"
	"time"
)

// reserved asks without waiting; 0 when nothing may be pulled now.
func reserved(t *testing.T, b *Shares, queue string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	n, err := b.Reserve(ctx, queue, Batch)
	if err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	return n
}

func TestOneTaskWaitsWhereLimitsBind(t *testing.T) {
	t.Parallel()
	b := New(100)
	b.Allow("q", 16)
	if got := reserved(t, b, "q"); got != 1 {
		t.Fatalf("first pull takes %d, want 1", got)
	}
	if got := reserved(t, b, "q"); got != 0 {
		t.Fatalf("a second pull takes %d while one waits, want 0", got)
	}
	b.Admitted("q", true)
	b.Move("q", Ready, Flying)
	if got := reserved(t, b, "q"); got != 1 {
		t.Errorf("after a run that had to wait a pull takes %d, want 1", got)
	}
}

// Where limits bind, several tasks are pulled at once as long as slots are idle.
func TestSeveralWaitBesideIdleSlots(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ slots, flying, want int }{
		{100, 16, mostAside}, {100, 3, 3}, {100, 1, 1}, {24, 16, 4}, {17, 16, 1},
	} {
		b := New(c.slots)
		b.Allow("q", c.flying)
		for flying := 0; flying < c.flying; {
			for range min(reserved(t, b, "q"), c.flying-flying) {
				b.Admitted("q", false)
				b.Move("q", Ready, Flying)
				flying++
			}
		}
		b.Admitted("q", true)
		if got := reserved(t, b, "q"); got != c.want {
			t.Errorf("%d slots, %d in flight: a pull takes %d, want %d", c.slots, c.flying, got, c.want)
		}
	}
}

// Where a rate delays short calls, as many tasks wait as start in a quarter of a second: few are
// in flight at any moment.
func TestSeveralWaitWhereARateDelaysShortCalls(t *testing.T) {
	t.Parallel()
	for interval, want := range map[time.Duration]int{5 * time.Millisecond: mostAside, 70 * time.Millisecond: 3, time.Second: 1} {
		now := time.Unix(1_800_000_000, 0)
		b := New(100)
		b.now = func() time.Time { return now }
		for range 2 * mostAside {
			if got := reserved(t, b, "q"); got < 1 {
				t.Fatalf("one each %s: a pull takes %d, want at least 1", interval, got)
			}
			b.Admitted("q", true)
			for b.loadOf("q").at[Ready] > 0 {
				b.Move("q", Ready, Flying)
				b.Leave("q", Flying)
				now = now.Add(interval)
			}
		}
		if got := reserved(t, b, "q"); got != want {
			t.Errorf("one each %s: a pull takes %d, want %d", interval, got, want)
		}
	}
}

func TestPullsGrowWhileRunsStartAtOnce(t *testing.T) {
	t.Parallel()
	b := New(100)
	b.Allow("q", 12)
	var pulls []int
	inFlight := 0
	for inFlight < 12 {
		n := reserved(t, b, "q")
		pulls = append(pulls, n)
		for range n {
			b.Admitted("q", false)
			b.Move("q", Ready, Flying)
		}
		inFlight += n
	}
	if inFlight != 12 {
		t.Errorf("pulls of %v put %d in flight, want no more than the limit of 12", pulls, inFlight)
	}
	if len(pulls) > 5 {
		t.Errorf("it took pulls of %v to fill 12 slots", pulls)
	}
	if got := reserved(t, b, "q"); got != 1 {
		t.Errorf("with every slot in use a pull takes %d, want the one that waits", got)
	}
}

func TestProcessHoldsNoMoreThanItsSlots(t *testing.T) {
	t.Parallel()
	b := New(10)
	total := 0
	for {
		n := reserved(t, b, "q")
		if n == 0 {
			break
		}
		total += n
		for range n {
			b.Admitted("q", false)
			b.Move("q", Ready, Flying)
		}
	}
	if total != 11 {
		t.Errorf("a process with 10 slots holds %d tasks, want 10 and a tenth", total)
	}
	b.Leave("q", Flying)
	if got := reserved(t, b, "other"); got != 1 {
		t.Errorf("another queue may pull %d after one ended, want 1", got)
	}
	b.Cancel("other", 1)
	if got := reserved(t, b, "other"); got != 1 {
		t.Errorf("after the reservation was given back %d may be pulled, want 1", got)
	}
}

func TestReserveWaitsForRoom(t *testing.T) {
	t.Parallel()
	b := New(100)
	b.Allow("q", 1)
	if n := reserved(t, b, "q"); n != 1 {
		t.Fatal("nothing may be pulled at first")
	}
	got := make(chan int)
	go func() {
		n, _ := b.Reserve(t.Context(), "q", Batch)
		got <- n
	}()
	select {
	case n := <-got:
		t.Fatalf("Reserve gave %d while one waits", n)
	case <-time.After(20 * time.Millisecond):
	}
	b.Leave("q", Ready)
	if n := <-got; n != 1 {
		t.Errorf("Reserve gave %d, want 1", n)
	}
}

func TestPullsTakeSeveral(t *testing.T) {
	t.Parallel()
	b := New(100)
	for range 110 { // so that nothing is allowed for having had to wait
		b.Admitted("q", false)
	}
	for b.held < 110 {
		n := reserved(t, b, "q")
		if n == 0 {
			t.Fatalf("nothing may be pulled with %d held of 110", b.held)
		}
		for range min(n, 100-b.InFlight()) {
			b.Move("q", Ready, Flying)
		}
	}
	for ended := 1; ended <= 5; ended++ { // and the next of the ten ready tasks begins
		b.Leave("q", Flying)
		b.Move("q", Ready, Flying)
		want := 0
		if ended == 5 {
			want = 5
		}
		if got := reserved(t, b, "q"); got != want {
			t.Errorf("with %d of ten begun, a pull takes %d, want %d", ended, got, want)
		}
	}
}

// What waits is what the last pull has left in the queue and what this process has of
// it, and never what a pull under way may yet bring.
func TestDepthCountsWhatWaits(t *testing.T) {
	t.Parallel()
	b := New(10)
	want := func(step string, depth int) {
		t.Helper()
		if got := b.Depth("q"); got != depth {
			t.Errorf("%s: depth %d, want %d", step, got, depth)
		}
	}
	want("nothing known", 0)
	reserve := func() int {
		t.Helper()
		n, err := b.Reserve(t.Context(), "q", 4)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := reserve()
	want("a pull under way", 0)
	b.Pulled("q", n, 7)
	want("pulled", 7+n)
	b.Move("q", Ready, Flying)
	want("one in flight", 7+n-1)
	more := reserve()
	want("another pull under way", 7+n-1)
	b.Cancel("q", more)
	want("that failed", 7+n-1)
}
