package enqueue

import (
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
)

// stallLong makes every stall that a top-up has noticed long enough.
func stallLong(topUp *TopUp) {
	for key, of := range topUp.stalled {
		of.since = of.since.Add(-2 * stallTimes.Longest)
		topUp.stalled[key] = of
	}
}

// Tasks of one evaluation that are deleted or archived in asynq are pushed again, while another
// evaluation keeps the queue busy, and only those.
func TestLostTasksArePushedWhileOthersKeepTheQueueBusy(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.submit(submission("lost", 5)).ID    // 20 runs
	other := b.submit(submission("busy", 6)).ID // 30 runs
	topUp := b.topUp(b.store)
	b.tick(topUp)
	inspector := asynq.NewInspectorFromRedisClient(store.Universal(b.store))
	for i, task := range b.pending(id) {
		var err error
		switch {
		case i < 7:
			err = inspector.DeleteTask("p", task)
		case i < 9:
			err = inspector.ArchiveTask("p", task)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := len(b.pending(id)); n != 11 {
		t.Fatalf("%d tasks are left, want 11", n)
	}
	stallLong(topUp)
	b.tick(topUp)
	if n, busy := len(b.pending(id)), len(b.pending(other)); n != 20 || busy != 30 {
		t.Errorf("%d tasks wait beside %d of the other evaluation, want 20 and 30", n, busy)
	}
	stallLong(topUp)
	b.tick(topUp)
	if n := b.store.Client().LLen(t.Context(), "asynq:{p}:pending").Val(); n != 50 {
		t.Errorf("%d tasks wait when nothing is lost, want the 50 of before", n)
	}
}

// A worker that checked tasks during a short pause drops them after the evaluation was
// resumed and its runs pushed again. They come back while the queue is busy.
func TestTasksDroppedAfterAShortPauseComeBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.submit(submission("short", 5)).ID // 20 runs
	b.submit(submission("busy", 6))
	topUp := b.topUp(b.store)
	b.tick(topUp)
	client, held := b.store.Client(), b.pending(id)[:4]
	for _, task := range held { // as a worker that pulls
		b.redis(client.LRem(t.Context(), "asynq:{p}:pending", 0, task).Err())
		b.redis(client.LPush(t.Context(), "asynq:{p}:active", task).Err())
		b.redis(client.HSet(t.Context(), "asynq:{p}:t:"+task, "state", "active").Err())
	}
	if _, err := b.enqueuer(b.store).Pause(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if checked, err := b.store.Check(t.Context(), record.Task{Evaluation: id, Kind: eval.KindPairwise}); err != nil || checked.Verdict != store.VerdictPaused {
		t.Fatalf("Check during the pause = %s, %v; want paused", checked.Verdict, err)
	}
	if _, err := b.enqueuer(b.store).Resume(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for _, task := range held {
		b.redis(client.LRem(t.Context(), "asynq:{p}:active", 0, task).Err())
		b.redis(client.Del(t.Context(), "asynq:{p}:t:"+task).Err())
	}
	b.tick(topUp)
	stallLong(topUp)
	b.tick(topUp)
	if n := len(b.pending(id)); n != 20 {
		t.Errorf("%d of 20 tasks wait after the pause, want all", n)
	}
}

// pending are the tasks of an evaluation that can be pulled.
func (b *bench) pending(id eval.ID) (tasks []string) {
	for _, task := range b.store.Client().LRange(b.t.Context(), "asynq:{p}:pending", 0, -1).Val() {
		if strings.HasPrefix(task, string(id)+".") {
			tasks = append(tasks, task)
		}
	}
	return tasks
}
