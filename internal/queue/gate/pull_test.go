package gate

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

func TestNeverMorePulledThanPermitted(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		const permitted, tasks = 5, 150
		f.push(tasks)
		var handled ids
		w := f.work("w1", permitted, func(ctx context.Context, _ *asynq.Task) error {
			time.Sleep(3 * time.Millisecond) // a call
			handled.add(ctx)
			return nil
		}, workerOptions{})
		most := 0
		f.eventually("all handled", func() bool {
			info, err := f.inspector.GetQueueInfo(queueName)
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, info.Active)
			n, _ := handled.distinct()
			return n == tasks
		})
		// A handler gives its permit back just before asynq ends its task, so as many
		// again may be ending.
		if most > 2*permitted {
			t.Errorf("active = %d, want at most %d running and as many ending", most, permitted)
		}
		if _, times := handled.distinct(); times != 1 {
			t.Errorf("a task was handled %d times, want once", times)
		}
		f.eventually("all ended", handled.all(f, tasks))
		w.end()
		if !w.slots.allFree() {
			t.Error("permits are missing after the end")
		}
		if got := w.log.except(); len(got) > 0 {
			t.Errorf("asynq logged %q, want nothing", got)
		}
	})
}

// Held handlers make the number exact: what is active is what was permitted.
func TestActiveIsWhatWasPermitted(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		begun := time.Now()
		f.push(40)
		var started atomic.Int64
		release := make(chan struct{})
		w := f.work("w1", 21, func(context.Context, *asynq.Task) error {
			started.Add(1)
			<-release
			return nil
		}, workerOptions{})
		defer w.end()
		defer close(release)
		f.eventually("21 started", func() bool { return started.Load() == 21 })
		if got := len(f.active()); got != 21 {
			t.Errorf("active = %d, want 21", got)
		}
		want := map[string]string{"state": "active", "owner": "w1"}
		got := f.task("t1")
		delete(got, "pull")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("a task at work (-want +got):\n%s", diff)
		}
		holders, err := Holders(t.Context(), f.redis, queueName, "t1", "t22", "none")
		held := holders["t1"]
		if now := time.Now(); err != nil || held.Worker != "w1" || held.Since.Before(begun.Truncate(time.Microsecond)) || held.Since.After(now) {
			t.Errorf("held by %q since %s, %v; want w1, since between %s and %s", held.Worker, held.Since, err, begun, now)
		}
		if len(holders) != 1 {
			t.Errorf("a task that waits, or is not there, is held by a worker: %+v", holders)
		}
	})
}

func TestBatchAnswersFromMemory(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		const tasks = 10 * MaxBatch
		f.push(tasks)
		var sent atomic.Int64
		f.redis.AddHook(wire{func(cmd redis.Cmder) {
			if cmd.Name() == "evalsha" && cmd.Args()[1] == takeScript.Hash() {
				sent.Add(1)
			}
		}})
		var reports []string
		permits := newSlots(1000)
		g := New(f.redis, Config{Owner: "w1", Permits: permits, Pulled: func(queue string, taken int, left int64) {
			reports = append(reports, fmt.Sprintf("%s %d %d", queue, taken, left))
		}})
		g.Serve(queueName)
		asked := time.Now()
		for i := range tasks {
			if !f.pullBy(g) {
				t.Fatalf("pull %d was answered as empty", i)
			}
		}
		if got := sent.Load(); got != 10 {
			t.Errorf("%d pulls took %d scripts, want 10", tasks, got)
		}
		var want []string
		for left := tasks - MaxBatch; left >= 0; left -= MaxBatch {
			want = append(want, fmt.Sprintf("%s %d %d", queueName, MaxBatch, left))
		}
		if diff := cmp.Diff(want, reports); diff != "" {
			t.Errorf("Pulled (-want +got):\n%s", diff)
		}
		// The lease in Redis ends no earlier than asynq believes: 30 s after its call.
		lease, err := f.redis.ZScore(t.Context(), keysOf(queueName).lease, "t1").Result()
		if lasts := time.Unix(int64(lease), 0).Sub(asked); err != nil || lasts < 31*time.Second {
			t.Errorf("lease ends in %v, %v; want over 31 s", lasts, err)
		}
		if err := g.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestFilledIsFoundAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		started := make(chan struct{}, 1)
		looked := make(chan int, 100)
		w := f.work("w1", 4, func(context.Context, *asynq.Task) error {
			started <- struct{}{}
			return nil
		}, workerOptions{patient: true, pulled: func(_ string, taken int, _ int64) { looked <- taken }})
		defer w.end()
		if taken := <-looked; taken != 0 {
			t.Fatalf("took %d from an empty queue", taken)
		}
		f.push(1)
		w.gate.Filled(queueName)
		w.gate.Filled("another") // unknown: ignored
		<-started                // and not by a timer
	})
}

func TestUnannouncedIsFoundByTheTimer(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		g, _ := f.by("w1", 0)
		const fallback = 200 * time.Millisecond
		patient(g).fallback = fallback
		q := g.served()[0]
		before := time.Now()
		q.looked(taken{}, g.fallback) // has just seen it empty
		f.push(1)
		if !f.pullBy(g) {
			t.Fatal("answered as empty")
		}
		if took := time.Since(before); took < fallback {
			t.Errorf("found after %v, want no sooner than after %v", took, fallback)
		}
	})
}

// A queue in which nothing may start holds up no other, and one that is served later
// is pulled from by the pull that waits.
func TestOnePullWaitsForAllQueues(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		f.push(2)
		f.pushTo("full", 3)
		f.pushTo("late", 1)
		permits := perQueue{newSlots(10), "full"}
		g := patient(New(f.redis, Config{Owner: "w1", Batch: 1, Permits: permits}))
		g.Serve("full")
		g.Serve(queueName)
		for i := range 2 {
			if !f.pullBy(g) {
				t.Fatalf("pull %d was answered as empty", i)
			}
		}
		answered := make(chan bool)
		go func() { answered <- f.pullBy(g) }()
		f.eventually("the pull waits", func() bool {
			g.mu.RLock()
			defer g.mu.RUnlock()
			return len(g.work) == 2
		})
		g.Serve("late")
		if !<-answered {
			t.Error("answered as empty, want the task of the queue that is served now")
		}
		for queue, want := range map[string]int{queueName: 2, "full": 0, "late": 1} {
			if n, err := Active(t.Context(), f.redis, queue); err != nil || n != want {
				t.Errorf("%d tasks of %s are active, %v; want %d", n, queue, err, want)
			}
		}
		if err := g.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// What was pulled of a queue and not handed over returns when the queue is no longer
// served; nothing is pulled from it any more.
func TestLeaveReturnsWhatWasPulled(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		f.push(5)
		g, permits := f.by("w1", 3)
		if !f.pullBy(g) {
			t.Fatal("answered as empty")
		}
		if diff := cmp.Diff([]string{"t3", "t2", "t1"}, f.active()); diff != "" {
			t.Fatalf("active (-want +got):\n%s", diff)
		}
		if err := g.Leave(t.Context(), queueName); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"t2", "t3", "t4", "t5"}, f.pending()); diff != "" {
			t.Errorf("pending (-want +got):\n%s", diff)
		}
		g.maxWait = 10 * time.Millisecond
		if f.pullBy(g) {
			t.Error("a queue that is not served was pulled from")
		}
		permits.Cancel("", 1)
		if !permits.allFree() {
			t.Error("permits are missing")
		}
	})
}

func TestPausedQueueIsLeftAlone(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		f.push(2)
		if err := f.inspector.PauseQueue(queueName); err != nil {
			t.Fatal(err)
		}
		reports := make(chan int64, 100)
		g := New(f.redis, Config{Owner: "w1", Permits: newSlots(9), Pulled: func(_ string, taken int, left int64) {
			if taken == 0 {
				reports <- left
			}
		}})
		g.Serve(queueName)
		answered := make(chan bool)
		go func() { answered <- f.pullBy(g) }()
		for range 3 {
			g.Filled(queueName)
			if left := <-reports; left != 2 {
				t.Errorf("left = %d, want 2", left)
			}
		}
		if got := len(f.active()); got != 0 {
			t.Errorf("active = %d while paused, want 0", got)
		}
		if err := f.inspector.UnpauseQueue(queueName); err != nil {
			t.Fatal(err)
		}
		g.Filled(queueName)
		if !<-answered {
			t.Error("answered as empty after the pause")
		}
		if err := g.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestDeletedTaskDoesNotWedgeTheQueue(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		f.push(4)
		for _, id := range []string{"t1", "t3"} {
			if err := f.redis.Del(t.Context(), keysOf(queueName).task+id).Err(); err != nil {
				t.Fatal(err)
			}
		}
		g, permits := f.by("w1", 0)
		for _, id := range []string{"t2", "t4"} {
			if !f.pullBy(g) {
				t.Fatalf("answered as empty, want %s", id)
			}
		}
		if diff := cmp.Diff([]string{"t4", "t2"}, f.active()); diff != "" {
			t.Errorf("active (-want +got):\n%s", diff)
		}
		if got := f.task("t1"); len(got) != 0 {
			t.Errorf("the deleted task is back: %v", got)
		}
		permits.Cancel("", 2)
		if !permits.allFree() {
			t.Error("permits are missing")
		}
	})
}

func TestTwoGatesTakeEachTaskOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		const tasks = 400
		f.push(tasks)
		var handled ids
		handle := func(ctx context.Context, _ *asynq.Task) error {
			handled.add(ctx)
			return nil
		}
		a := f.work("a", 10, handle, workerOptions{})
		b := f.work("b", 10, handle, workerOptions{})
		f.eventually("all ended", handled.all(f, tasks))
		if _, most := handled.distinct(); most != 1 {
			t.Errorf("a task was handled %d times, want once", most)
		}
		a.end()
		b.end()
		for _, w := range []*worker{a, b} {
			if got := w.log.except(); len(got) > 0 {
				t.Errorf("asynq logged %q, want nothing", got)
			}
		}
	})
}

// A Redis that is full refuses a pull as a whole: no task leaves its queue.
func TestPullFromFullRedisTakesNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.New(t).Client())
	f.push(3)
	pull := func() (taken, error) {
		return pullTasks(t.Context(), f.redis, keysOf(queueName), "w1", nextPull(time.Now()), 2, time.Now().Add(leaseFor))
	}
	if err := f.redis.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if answer, err := pull(); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("a pull from a full Redis takes %v, %v; want it refused", answer.tasks, err)
	}
	if diff := cmp.Diff([]string{"t1", "t2", "t3"}, f.pending()); diff != "" || len(f.active()) != 0 {
		t.Errorf("pending after it (-want +got), with %v active:\n%s", f.active(), diff)
	}
	if err := f.redis.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if answer, err := pull(); err != nil || len(answer.tasks) != 2 || answer.left != 1 {
		t.Errorf("a pull from a Redis with room again takes %v, %v; want two tasks", answer.tasks, err)
	}
}
