package worker

import (
	"context"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// A run's task in a queue that is not the run's is dropped without a call. It is of an
// evaluation that was deleted, and submitted again with limits that changed the queue.
func TestTaskInAnotherQueueIsDropped(t *testing.T) {
	t.Parallel()
	blocked := make(chan struct{})
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		select {
		case <-blocked:
		case <-ctx.Done():
		}
		return firstWins(ctx, n, request)
	}})
	b.submit(2, func(e *eval.Evaluation, _ map[string]string, s *record.Settings) {
		e.Name = "other"
		e.Normalize()
		s.Limits = []ratelimit.Limit{{Scope: ratelimit.Scope{Evaluation: string(e.ID())}, Kind: ratelimit.Concurrency, Max: 100}}
	})
	other := "p~" + string(b.id)
	b.submit(2) // in the queue p
	defer b.start(b.config())()
	b.reach(4)

	client := store.Universal(b.store)
	tasks := asynq.NewClientFromRedisClient(client)
	for index, documents := range [][]string{{"d000.md", "d001.md"}, {"d001.md", "d000.md"}} {
		task := record.Task{Evaluation: b.id, Index: index, Kind: eval.KindPairwise, Model: "p:m", Documents: documents}
		if _, err := tasks.Enqueue(asynq.NewTask(string(task.Kind), task.Encode()), asynq.TaskID(task.ID()), asynq.Queue(other)); err != nil {
			t.Fatal(err)
		}
	}
	testrun.Eventually(t, "the tasks in the other queue are gone", func() bool {
		n, err := client.Exists(t.Context(), "asynq:{"+other+"}:t:"+string(b.id)+".0.0.0", "asynq:{"+other+"}:t:"+string(b.id)+".0.1.0").Result()
		return err == nil && n == 0
	})
	if calls, _ := b.provider.count(); calls != 4 {
		t.Errorf("%d calls for 4 runs", calls)
	}
	close(blocked)
	b.wait()
	b.wantEachOnce()
	if calls, _ := b.provider.count(); calls != 4 {
		t.Errorf("%d calls for 4 runs", calls)
	}
}

// The task of a run whose evaluation was cancelled during its call leaves nothing, also
// when the call fails.
func TestTaskOfACancelledRunIsNotKept(t *testing.T) {
	t.Parallel()
	blocked := make(chan struct{})
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		<-blocked
		if n == 1 {
			return nil, &providers.Error{Class: providers.BadRequest, Status: 400, Message: "no"}
		}
		return firstWins(ctx, n, request)
	}})
	b.submit(2)
	stop := b.start(b.config())
	b.reach(2)
	if status, err := b.enqueuer().Cancel(t.Context(), b.id); err != nil || status != record.StatusCancelled {
		t.Fatalf("Cancel = %s, %v", status, err)
	}
	close(blocked)
	client := store.Universal(b.store)
	testrun.EventuallyGot(t, "no task is held", func() (string, bool) {
		held, err := client.LRange(t.Context(), "asynq:{p}:active", 0, -1).Result()
		return "held", err == nil && len(held) == 0
	})
	stop()
	if left := client.Keys(t.Context(), "asynq:{p}:t:*").Val(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
