package gate

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
)

func TestStopReturnsWhatWasNotHandedOver(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		f.push(7)
		g, permits := f.by("w1", 5)
		if !f.pullBy(g) {
			t.Fatal("answered as empty")
		}
		if diff := cmp.Diff([]string{"t6", "t7"}, f.pending()); diff != "" {
			t.Fatalf("pending before (-want +got):\n%s", diff)
		}
		for range 2 { // the second changes nothing
			if err := g.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"t2", "t3", "t4", "t5", "t6", "t7"}, f.pending()); diff != "" {
				t.Errorf("pending (-want +got):\n%s", diff)
			}
		}
		if diff := cmp.Diff([]string{"t1"}, f.active()); diff != "" {
			t.Errorf("active (-want +got):\n%s", diff)
		}
		if n := f.redis.ZCard(t.Context(), keysOf(queueName).lease).Val(); n != 1 {
			t.Errorf("leases = %d, want 1", n)
		}
		if f.pullBy(g) {
			t.Error("a pull after Stop was answered with a task")
		}
		permits.Cancel("", 1)
		if !permits.allFree() {
			t.Error("permits are missing")
		}
	})
}

// A worker that was frozen finds its buffer in other hands.
func TestStopLeavesForeignTasks(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		f.push(3)
		a, _ := f.by("a", 0)
		f.pullBy(a)
		f.recover("t1", "t2", "t3")
		b, _ := f.by("b", 2)
		f.pullBy(b)
		if err := a.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"t2", "t1"}, f.active()); diff != "" {
			t.Errorf("active (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"t3"}, f.pending()); diff != "" {
			t.Errorf("pending (-want +got):\n%s", diff)
		}
	})
}

func TestStopEndsWaitingPulls(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		looked := make(chan struct{}, 100)
		idle := f.work("idle", 4, nil, workerOptions{patient: true, pulled: func(string, int, int64) { looked <- struct{}{} }})
		<-looked
		f.push(3)
		held := make(chan struct{})
		started := make(chan struct{}, 1)
		full := f.work("full", 1, func(context.Context, *asynq.Task) error {
			started <- struct{}{}
			<-held
			return nil
		}, workerOptions{patient: true})
		<-started // and its next pull has no token; the one below has no permit
		answered := make(chan bool)
		go func() { answered <- f.pullBy(full.gate) }()

		for _, w := range []*worker{idle, full} {
			if err := w.gate.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if <-answered {
			t.Error("a pull without a permit was answered with a task")
		}
		close(held)
		idle.server.Shutdown()
		full.server.Shutdown()
	})
}

// What asynq does not ask for in time, because its tokens are taken or it hangs
// in a heartbeat, goes back by itself.
func TestOverdueBufferIsReturned(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		f.push(3)
		g, permits := f.by("w1", 0)
		patient(g)
		f.pullBy(g)
		q := g.served()[0]
		q.mu.Lock()
		q.since = q.since.Add(-handOverWithin)
		q.timer.Reset(0)
		q.mu.Unlock()
		f.eventually("t2 and t3 returned", func() bool { return cmp.Equal(f.pending(), []string{"t2", "t3"}) })
		f.eventually("permits back", func() bool { return permits.free.TryAcquire(int64(permits.n - 1)) })
		permits.Cancel("", permits.n-1)

		// A pull that comes before the timer does the same first, and takes nothing
		// that has become another's: t3, as if this worker had been frozen.
		if !f.pullBy(g) {
			t.Fatal("answered as empty")
		}
		q.mu.Lock()
		q.since = q.since.Add(-handOverWithin)
		q.mu.Unlock()
		if err := f.redis.HSet(t.Context(), keysOf(queueName).task+"t3", "owner", "another").Err(); err != nil {
			t.Fatal(err)
		}
		answered := make(chan bool, 1)
		go func() { answered <- f.pullBy(g) }()
		f.eventually("the pull has settled", func() bool { return len(q.buffered()) == 0 })
		if err := g.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if <-answered {
			t.Error("another's task was handed over")
		}
		if diff := cmp.Diff([]string{"t3", "t2", "t1"}, f.active()); diff != "" {
			t.Errorf("active (-want +got):\n%s", diff)
		}
	})
}
