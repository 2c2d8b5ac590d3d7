package gate

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Redis goes back to a copy of the time at which a worker had a task that it has ended since. The
// worker returns it, also from a queue that it no longer serves, and not the task that it has.
func TestStraysReturn(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		started, goOn := make(chan string, 9), make(chan error)
		w := f.work("w", 4, func(ctx context.Context, _ *asynq.Task) error {
			id, _ := asynq.GetTaskID(ctx)
			started <- id
			if id == "t1" {
				return <-goOn
			}
			return nil
		}, workerOptions{})
		f.push(1)
		w.gate.FilledAll()
		<-started

		f.pushTo("unserved", 1)
		stray := func(queue string) {
			t.Helper()
			keys := keysOf(queue)
			got, err := pullTasks(t.Context(), f.redis, keys, "w", nextPull(time.Now()), 9, time.Now().Add(time.Hour))
			if err != nil || len(got.tasks) != 1 {
				t.Fatalf("pulled %+v, %v; want one task", got, err)
			}
		}
		stray("unserved")
		for range 2 {
			for queue, want := range map[string]int{queueName: 0, "unserved": 1} {
				n, err := w.gate.ReturnStrays(t.Context(), queue)
				if err != nil || n != want {
					t.Errorf("%d strays of %s returned, %v; want %d", n, queue, err, want)
				}
			}
			stray("unserved")
		}
		if got := f.task("t1"); got["owner"] != "w" || got["state"] != "active" {
			t.Errorf("the task in hand is %v, want it active", got)
		}

		if err := w.gate.Leave(t.Context(), queueName); err != nil {
			t.Fatal(err)
		}
		if got := f.active(); len(got) != 1 || got[0] != "t1" {
			t.Errorf("active after the queue was left: %v, want the task in hand", got)
		}
		goOn <- nil
		f.eventually("t1 has ended", func() bool {
			return f.state("t1") == "gone" && !w.gate.hands.has(keysOf(queueName).task+"t1") // the worker hears it later
		})
		f.push(1)
		stray(queueName)
		if n, err := w.gate.ReturnStrays(t.Context(), queueName); err != nil || n != 1 {
			t.Errorf("%d strays returned, %v; want 1", n, err)
		}
		if got := f.state("t1"); got != "pending" {
			t.Errorf("t1 is %s, want pending", got)
		}
		w.end()
	})
}

// Tasks that wait in the worker to be handed over, and those that asynq has, are no strays.
func TestTasksThatWaitInTheWorkerAreNoStrays(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		g, _ := f.by("w", 4)
		f.push(4)
		if !f.pullBy(g) {
			t.Fatal("no task was pulled")
		}
		if n, err := g.ReturnStrays(t.Context(), queueName); err != nil || n != 0 {
			t.Errorf("%d strays returned, %v; want none", n, err)
		}
		if got := f.active(); len(got) != 4 {
			t.Errorf("active are %v, want the four that were pulled", got)
		}
	})
}

// asynq gives up a task whose lease expired while Redis was unreachable, and asks later which tasks have expired
// leases. The answer includes this one although the worker no longer serves its queue.
func TestExpiredLeaseInAQueueThatWasLeft(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		g, _ := f.by("w", 1)
		f.push(1)
		if !f.pullBy(g) {
			t.Fatal("no task was pulled")
		}
		if err := g.Leave(t.Context(), queueName); err != nil {
			t.Fatal(err)
		}
		script := redis.NewScript(`return redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", ARGV[1])`)
		later := time.Now().Add(time.Hour).Unix()
		got, err := script.Run(t.Context(), g.Client(), []string{keysOf(Served).lease}, later, keysOf(Served).task).StringSlice()
		if err != nil || len(got) != 1 || got[0] != "t1" {
			t.Errorf("expired are %v, %v; want t1", got, err)
		}
	})
}
