package gate

import (
	"testing"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/internal/redistest"
)

func TestQueueInfo(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	f := newFleet(t, server.Client())
	if info, known, err := QueueInfo(f.inspector, queueName); info != nil || known || err != nil {
		t.Errorf("before the first task: %v, %t, %v; want an unknown queue and no error", info, known, err)
	}
	if _, err := f.tasks.Enqueue(asynq.NewTask("pairwise", nil), asynq.Queue(queueName)); err != nil {
		t.Fatal(err)
	}
	if info, known, err := QueueInfo(f.inspector, queueName); err != nil || !known || info.Pending != 1 {
		t.Errorf("with a task: %+v, %t, %v; want one pending", info, known, err)
	}
	server.Kill()
	if _, known, err := QueueInfo(f.inspector, queueName); known || err == nil {
		t.Errorf("without Redis: %t, %v; want an error", known, err)
	}
}
