package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// Of the tasks that are chosen none is left, wherever asynq has them, but for the one
// that a worker holds. The others stay.
func TestDiscard(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		f.inEveryState()
		removed, err := Discard(t.Context(), f.redis, queueName, Unheld, startingWith("t"))
		if err != nil || removed != 6 {
			t.Fatalf("Discard = %d, %v; want 6", removed, err)
		}
		if diff := cmp.Diff(map[string]string{"t-active": "active", "other": "pending"}, f.everyTask()); diff != "" {
			t.Errorf("tasks left (-want +got):\n%s", diff)
		}
		if unique := f.redis.Keys(t.Context(), "asynq:{"+queueName+"}:unique:*").Val(); len(unique) != 0 {
			t.Errorf("uniqueness keys are left: %v", unique)
		}
	})
}

// startingWith picks tasks by the beginning of their ids.
func startingWith(prefix string) Pick {
	return func(_ context.Context, _ State, tasks []string) ([]string, error) {
		return slices.DeleteFunc(slices.Clone(tasks), func(id string) bool { return !strings.HasPrefix(id, prefix) }), nil
	}
}

// inEveryState leaves tasks named for their states, two pending ones, one of them with a
// uniqueness key, and "other".
func (f *fleet) inEveryState() {
	f.t.Helper()
	k := keysOf(queueName)
	push := func(id string, options ...asynq.Option) {
		f.t.Helper()
		if _, err := f.tasks.Enqueue(asynq.NewTask("run", []byte(id), append(options, asynq.TaskID(id), asynq.Queue(queueName))...)); err != nil {
			f.t.Fatal(err)
		}
	}
	push("t-active")
	g, _ := f.by("w", 1)
	if !f.pullBy(g) {
		f.t.Fatal("nothing was pulled")
	}
	for id, in := range map[string]string{"t-retry": k.retry, "t-archived": k.prefix + "archived", "t-completed": k.prefix + "completed"} {
		push(id)
		f.redis.LRem(f.t.Context(), k.pending, 0, id)
		f.redis.ZAdd(f.t.Context(), in, redis.Z{Score: float64(time.Now().Add(time.Hour).Unix()), Member: id})
		f.redis.HSet(f.t.Context(), k.task+id, "state", strings.TrimPrefix(id, "t-"))
	}
	push("t-scheduled", asynq.ProcessIn(time.Hour))
	push("t-pending")
	push("other")
	push("t-unique", asynq.Unique(time.Hour))
}

// everyTask is the state of every task key.
func (f *fleet) everyTask() map[string]string {
	f.t.Helper()
	found := map[string]string{}
	prefix := keysOf(queueName).task
	for _, key := range f.redis.Keys(f.t.Context(), "asynq:{"+queueName+"}:t:*").Val() {
		found[strings.TrimPrefix(key, prefix)] = f.redis.HGet(f.t.Context(), key, "state").Val()
	}
	return found
}

// A task that a worker pulls after it was chosen is the worker's.
func TestDiscardLeavesWhatIsPulledMeanwhile(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		f.push(3)
		g, _ := f.by("w", 1)
		removed, err := Discard(t.Context(), f.redis, queueName, Unpulled, func(_ context.Context, _ State, tasks []string) ([]string, error) {
			if !f.pullBy(g) {
				t.Error("nothing was pulled")
			}
			return tasks, nil
		})
		if err != nil || removed != 2 {
			t.Errorf("Discard = %d, %v; want 2", removed, err)
		}
		if diff := cmp.Diff(map[string]string{"t1": "active"}, f.everyTask()); diff != "" {
			t.Errorf("tasks left (-want +got):\n%s", diff)
		}
	})
}

// A queue longer than what one command reads is discarded as a whole, and no command
// reads or removes more than its bound.
func TestDiscardOfALongQueue(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.New(t).Client())
	const tasks = 2*readAtOnce + 10
	pipe := f.redis.Pipeline()
	for i := range tasks {
		id := fmt.Sprintf("%s%d", []string{"t", "u"}[i%2], i)
		pipe.HSet(t.Context(), keysOf(queueName).task+id, "state", "pending")
		pipe.LPush(t.Context(), keysOf(queueName).pending, id)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.redis.AddHook(wire{func(cmd redis.Cmder) {
		if words := len(cmd.Args()); cmd.Name() == "evalsha" && words > returnAtOnce+10 {
			t.Errorf("a command has %d words", words)
		}
	}})
	removed, err := Discard(t.Context(), f.redis, queueName, Unpulled, startingWith("t"))
	if err != nil || removed != tasks/2 || len(f.pending()) != tasks/2 {
		t.Errorf("Discard = %d, %v, and %d are pending; want %d and %d", removed, err, len(f.pending()), tasks/2, tasks/2)
	}
}

func TestExpire(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		f.inEveryState()
		f.redis.ZAdd(t.Context(), keysOf(queueName).prefix+"completed", redis.Z{Score: 1, Member: "old"})
		f.redis.HSet(t.Context(), keysOf(queueName).task+"old", "state", "completed")
		before := f.everyTask()
		if err := Expire(t.Context(), f.redis, queueName); err != nil {
			t.Error(err)
		}
		delete(before, "old")
		if diff := cmp.Diff(before, f.everyTask()); diff != "" {
			t.Errorf("tasks left (-want +got):\n%s", diff)
		}
	})
}

// An empty queue leaves no key behind. One that has a task, is paused, or gets a task
// meanwhile stays on asynq's list.
func TestForget(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before func(f *fleet)
		want   bool
	}{
		"empty":  {func(*fleet) {}, true},
		"task":   {func(f *fleet) { f.push(1) }, false},
		"paused": {func(f *fleet) { _ = f.inspector.PauseQueue(queueName) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, f *fleet) {
				f.push(1, asynq.Retention(time.Hour))
				w := f.work("w", 1, func(context.Context, *asynq.Task) error { return nil }, workerOptions{})
				f.eventually("the task has ended", func() bool { return f.state("t1") == "completed" })
				w.end()
				if _, err := Discard(t.Context(), f.redis, queueName, Unheld, startingWith("t")); err != nil {
					t.Fatal(err)
				}
				test.before(f)
				if forgotten, err := Forget(t.Context(), f.redis, queueName); err != nil || forgotten != test.want {
					t.Errorf("Forget = %v, %v; want %v", forgotten, err, test.want)
				}
				if _, err := Forward(t.Context(), f.redis, queueName); err != nil { // by a process that still serves it
					t.Fatal(err)
				}
				if listed := f.redis.SIsMember(t.Context(), "asynq:queues", queueName).Val(); listed == test.want {
					t.Errorf("the queue is listed: %v", listed)
				}
				if keys := f.redis.Keys(t.Context(), "asynq:{"+queueName+"}:*").Val(); len(keys) == 0 != test.want {
					t.Errorf("keys left: %v", keys)
				}
			})
		})
	}
}

func TestForgetServers(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		now := time.Now()
		for _, key := range []string{serversKey, workersKey} {
			f.redis.ZAdd(t.Context(), key, redis.Z{Score: float64(now.Add(-time.Hour).Unix()), Member: "dead"}, redis.Z{Score: float64(now.Unix()), Member: "alive"})
		}
		if err := ForgetServers(t.Context(), f.redis); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{serversKey, workersKey} {
			if got := f.redis.ZRange(t.Context(), key, 0, -1).Val(); !slices.Equal(got, []string{"alive"}) {
				t.Errorf("%s has %v", key, got)
			}
		}
	})
}

// In a namespace, the tasks, uniqueness keys and queue of another one stay.
func TestDiscardInANamespace(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	first := newFleet(t, server.Client())
	prefixed := server.Client()
	prefixed.AddHook(Prefixed("b:"))
	second := newFleet(t, prefixed)
	first.push(1, asynq.Unique(time.Hour))
	before := server.Client().Keys(t.Context(), "asynq:*").Val()
	second.push(1, asynq.Unique(time.Hour))
	if n, err := Discard(t.Context(), prefixed, queueName, Unheld, startingWith("t")); err != nil || n != 1 {
		t.Errorf("Discard = %d, %v; want 1", n, err)
	}
	if forgotten, err := Forget(t.Context(), prefixed, queueName); err != nil || !forgotten {
		t.Errorf("Forget = %v, %v", forgotten, err)
	}
	if left := server.Client().Keys(t.Context(), "b:*").Val(); len(left) != 0 {
		t.Errorf("left in the namespace: %v", left)
	}
	after := server.Client().Keys(t.Context(), "asynq:*").Val()
	slices.Sort(before)
	slices.Sort(after)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("keys of the other namespace (-before +after):\n%s", diff)
	}
}
