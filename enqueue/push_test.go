package enqueue

import (
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/enqueue/store"
)

// An evaluation is deleted, or expires, and asynq still keeps its ended tasks,
// whose ids are those of the same evaluation submitted again.
func TestEndedTasksOfAnotherLifeGiveWay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	queued := submission("again", 3)
	receipt := b.submit(queued)
	inspector := asynq.NewInspectorFromRedisClient(store.Universal(b.store))
	client := b.store.Client()

	if n, err := inspector.ArchiveAllPendingTasks("p"); err != nil || n != receipt.Runs {
		t.Fatalf("archived %d tasks, %v; want %d", n, err, receipt.Runs)
	}
	for _, key := range []string{b.store.Keys().Record(receipt.ID), b.store.Keys().Cursors(receipt.ID)} {
		if err := client.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
	}
	b.submit(queued)
	info, err := inspector.GetQueueInfo("p")
	if err != nil {
		t.Fatal(err)
	}
	if info.Pending != receipt.Runs || info.Archived != 0 {
		t.Errorf("%d tasks are pending and %d archived, want %d and 0", info.Pending, info.Archived, receipt.Runs)
	}
	tasks, err := inspector.ListPendingTasks("p")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if task.Retention != 10*time.Minute {
			t.Errorf("%s is kept for %s after it succeeds, want 10m", task.ID, task.Retention)
		}
	}
}
