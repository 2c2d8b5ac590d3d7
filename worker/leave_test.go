package worker

import (
	"context"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/providers"
)

// asynq shows the results of runs: succeeded ones with their verdict among the completed tasks, failed ones with class
// and message in the archive.
func TestEndedRunsAreSeenInAsynq(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: func(ctx context.Context, n int, request *providers.Request) (*providers.Result, error) {
		if n == 1 {
			return nil, &providers.Error{Class: providers.BadRequest, Status: 400, Message: "too long <b>"}
		}
		return firstWins(ctx, n, request)
	}})
	b.submit(3)
	stop := b.start(b.config())
	b.wait()
	stop()

	inspector := asynq.NewInspectorFromRedisClient(store.Universal(b.store))
	archived, err := inspector.ListArchivedTasks("p")
	if err != nil || len(archived) != 1 {
		t.Fatalf("%d tasks are archived, %v; want 1", len(archived), err)
	}
	if got, want := archived[0].LastErr, "bad_request: too long <b> (after 1 call)"; got != want {
		t.Errorf("archived under %q, want %q", got, want)
	}
	completed, err := inspector.ListCompletedTasks("p")
	if err != nil || len(completed) != b.runs-1 {
		t.Fatalf("%d tasks are kept as completed, %v; want %d", len(completed), err, b.runs-1)
	}
	for _, info := range completed {
		decoded, err := record.DecodeTask(info.Payload)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(info.Result), decoded.Documents[0]+" wins: it is the first"; got != want {
			t.Errorf("the result of %s is %q, want %q", info.ID, got, want)
		}
	}
}

// A task that is dropped leaves nothing behind that would be in the way of the
// same task when it is pushed again.
func TestDroppedTaskLeavesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, &fakeProvider{answer: firstWins})
	b.submit(2)
	if err := b.store.Client().Del(t.Context(), b.store.Keys().Record(b.id)).Err(); err != nil {
		t.Fatal(err)
	}
	// The queue is served because another evaluation has runs in it.
	deleted := b.id
	b.submit(3)
	stop := b.start(b.config())
	b.wait()
	stop()
	inspector := asynq.NewInspectorFromRedisClient(store.Universal(b.store))
	info, err := inspector.GetQueueInfo("p")
	if err != nil {
		t.Fatal(err)
	}
	if info.Completed != b.runs || info.Size != info.Completed {
		t.Errorf("the queue holds %d tasks, %d completed; want the %d of the evaluation that remains (%s was deleted)",
			info.Size, info.Completed, b.runs, deleted)
	}
}
