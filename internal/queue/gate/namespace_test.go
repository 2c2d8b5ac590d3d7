package gate

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
)

// Two fleets share a Redis, and name their queues and tasks alike: each sees and
// works on its own, and no key of one is like the other's.
func TestPrefixedFleetsAreApart(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	first := newFleet(t, server.Client())
	prefixed := server.Client()
	prefixed.AddHook(Prefixed("b:"))
	second := newFleet(t, prefixed)
	first.push(3)
	second.push(5)
	var handled ids
	started, cancelled := make(chan string, 1), make(chan struct{})
	w := second.work("w", 8, func(ctx context.Context, _ *asynq.Task) error {
		handled.add(ctx)
		if id, _ := asynq.GetTaskID(ctx); id == "t1" {
			started <- id
			<-ctx.Done() // cancelled by name, over asynq's channel
			close(cancelled)
		}
		return nil
	}, workerOptions{prefix: "b:"})
	id := <-started
	second.eventually("the others have ended", func() bool { n, _ := handled.distinct(); return n == 5 })
	if servers, err := first.inspector.Servers(); err != nil || len(servers) != 0 {
		t.Errorf("the first fleet sees servers %v, %v", servers, err)
	}
	second.eventually("the second fleet sees its server", func() bool { // asynq writes it every 5 s
		servers, err := second.inspector.Servers()
		return err == nil && len(servers) == 1
	})
	// Said in the first fleet, it is not heard in the second.
	if heard, err := server.Client().Publish(t.Context(), "asynq:cancel", id).Result(); err != nil || heard != 0 {
		t.Errorf("%d listen to the first fleet's channel, %v", heard, err)
	}
	second.eventually("the task is cancelled", func() bool { // asynq may not listen yet
		if err := second.inspector.CancelProcessing(id); err != nil {
			t.Fatal(err)
		}
		select {
		case <-cancelled:
			return true
		default:
			return false
		}
	})
	second.eventually("every task has ended", func() bool { return len(second.active()) == 0 && len(second.pending()) == 0 })
	w.end()
	if got := first.pending(); len(got) != 3 {
		t.Errorf("the first fleet has %v pending, want its 3", got)
	}
	keys, err := server.Client().Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	of := map[bool]int{}
	for _, key := range keys {
		if key != "{ef}:limits" { // redistest's
			of[strings.HasPrefix(key, "b:asynq:")]++
		}
		if !strings.HasPrefix(key, "b:asynq:") && !strings.HasPrefix(key, "asynq:") && key != "{ef}:limits" {
			t.Errorf("key %s is of neither fleet", key)
		}
	}
	if of[false] != 5 { // the list of queues, pending, three tasks
		t.Errorf("%d keys of the first fleet, want 5: %v", of[false], keys)
	}
	queues, err := second.inspector.Queues()
	if err != nil || len(queues) != 1 || queues[0] != queueName {
		t.Errorf("queues of the second fleet %v, %v", queues, err)
	}
}

// A word that looks like a key is left alone where the command's key is not
// asynq's, and where it cannot be a key.
func TestPrefixedLeavesTextsAlone(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	prefixed, plain := server.Client(), server.Client()
	prefixed.AddHook(Prefixed("b:"))
	ctx := t.Context()
	if err := prefixed.HSet(ctx, "h", "asynq:{q}:f", "asynq:{q}:v").Err(); err != nil {
		t.Fatal(err)
	}
	if got := plain.HGet(ctx, "h", "asynq:{q}:f").Val(); got != "asynq:{q}:v" {
		t.Errorf("a text became %q", got)
	}
	if err := prefixed.SAdd(ctx, "asynq:queues", "asynq:mine").Err(); err != nil {
		t.Fatal(err)
	}
	if got := plain.SMembers(ctx, "b:asynq:queues").Val(); len(got) != 1 || got[0] != "asynq:mine" {
		t.Errorf("a queue's name became %q", got)
	}
	pipe := prefixed.Pipeline()
	pipe.Set(ctx, "asynq:{q}:a", 1, 0)
	pipe.Set(ctx, "k", "asynq:{q}:a", 0)
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	if a, k := plain.Get(ctx, "b:asynq:{q}:a").Val(), plain.Get(ctx, "k").Val(); a != "1" || k != "asynq:{q}:a" {
		t.Errorf("in a pipeline: %q and %q", a, k)
	}
}

// asynq counts the tasks of a queue alike in every namespace: its answers name the keys
// that it counted.
func TestPrefixedQueuesAreCounted(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	for _, prefix := range []string{"", "b:"} {
		client := server.Client()
		if prefix != "" {
			client.AddHook(Prefixed(prefix))
		}
		f := newFleet(t, client)
		f.push(4)
		if _, err := f.tasks.Enqueue(asynq.NewTask("run", nil, asynq.Queue(queueName), asynq.ProcessIn(time.Hour))); err != nil {
			t.Fatal(err)
		}
		if err := f.inspector.ArchiveTask(queueName, "t4"); err != nil {
			t.Fatal(err)
		}
		if err := f.inspector.PauseQueue(queueName); err != nil {
			t.Fatal(err)
		}
		info, err := f.inspector.GetQueueInfo(queueName)
		if err != nil {
			t.Fatalf("prefix %q: %v", prefix, err)
		}
		got := []any{info.Pending, info.Scheduled, info.Archived, info.Size, info.Paused, info.Latency > 0, info.MemoryUsage > 0}
		if want := []any{3, 1, 1, 5, true, true, true}; !slices.Equal(got, want) {
			t.Errorf("prefix %q: pending, scheduled, archived, all, paused, waiting, memory %v, want %v", prefix, got, want)
		}
		counted, err := Count(t.Context(), client, []string{"none", queueName})
		want := []Counts{{}, {Pending: 3, Scheduled: 1, Archived: 1, Paused: true, Listed: true}}
		if err != nil || !slices.Equal(counted, want) {
			t.Errorf("prefix %q: counted %+v, %v; want %+v", prefix, counted, err, want)
		}
		if listed, err := Queues(t.Context(), client); err != nil || !slices.Equal(listed, []string{queueName}) {
			t.Errorf("prefix %q: queues %q, %v", prefix, listed, err)
		}
	}
}
