package gate

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// put pushes a task that is to be pulled at a time, which may be over: as scheduled,
// or to be retried.
func (f *fleet) put(id string, at time.Time, retry bool) {
	f.t.Helper()
	// asynq makes one that is due pending at once.
	if _, err := f.tasks.Enqueue(asynq.NewTask("run", nil), asynq.TaskID(id), asynq.Queue(queueName), asynq.ProcessIn(time.Hour)); err != nil {
		f.t.Fatal(err)
	}
	keys := keysOf(queueName)
	delayed, state := keys.scheduled, "scheduled"
	if retry {
		delayed, state = keys.retry, "retry"
	}
	pipe := f.redis.TxPipeline()
	pipe.ZRem(f.t.Context(), keys.scheduled, id)
	pipe.ZAdd(f.t.Context(), delayed, redis.Z{Score: float64(at.Unix()), Member: id})
	pipe.HSet(f.t.Context(), keys.task+id, "state", state)
	if _, err := pipe.Exec(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

func TestForwardMovesWhatIsDue(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		f.push(1)
		now := time.Now()
		f.put("scheduled", now.Add(-time.Second), false)
		f.put("retried", now.Add(-time.Minute), true)
		f.put("later", now.Add(time.Hour), true)
		f.put("tomorrow", now.Add(24*time.Hour), false)
		depth, err := DepthOf(t.Context(), f.redis, queueName, now.Add(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if since := now.Sub(depth.Oldest); since < 0 || since > time.Minute {
			t.Errorf("the next task is pending for %s", since)
		}
		depth.Oldest = time.Time{}
		if diff := cmp.Diff(Depth{Pending: 1, Due: 2, Delayed: 2}, depth); diff != "" {
			t.Errorf("before (-want +got):\n%s", diff)
		}
		if n, err := Forward(t.Context(), f.redis, queueName); err != nil || n != 2 {
			t.Fatalf("moved %d, %v; want 2", n, err)
		}
		if diff := cmp.Diff([]string{"t1", "scheduled", "retried"}, f.pending()); diff != "" {
			t.Errorf("pending (-want +got):\n%s", diff)
		}
		info, err := f.inspector.GetTaskInfo(queueName, "retried")
		if err != nil || info.State != asynq.TaskStatePending {
			t.Errorf("asynq says of a task that was moved: %v, %v; want pending", info, err)
		}
		if n, err := Forward(t.Context(), f.redis, queueName); err != nil || n != 0 {
			t.Errorf("moved again: %d, %v", n, err)
		}
	})
}

// What Forward leaves of a task is what asynq's own forwarder, run beside it in a
// server, leaves of another.
func TestForwardLeavesWhatAsynqLeaves(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		f.put("ours", time.Now().Add(-time.Minute), true)
		if _, err := Forward(t.Context(), f.redis, queueName); err != nil {
			t.Fatal(err)
		}
		ours := f.task("ours")
		// A server forwards what it may not pull yet.
		if err := f.inspector.PauseQueue(queueName); err != nil {
			t.Fatal(err)
		}
		f.put("theirs", time.Now().Add(-time.Minute), true)
		server := asynq.NewServerFromRedisClient(f.redis, asynq.Config{
			Queues: map[string]int{queueName: 1}, Concurrency: 1, DelayedTaskCheckInterval: 20 * time.Millisecond, LogLevel: asynq.FatalLevel,
		})
		if err := server.Start(asynq.NewServeMux()); err != nil {
			t.Fatal(err)
		}
		defer server.Shutdown()
		f.eventually("asynq has forwarded its task", func() bool { return len(f.pending()) == 2 })
		theirs := f.task("theirs")
		for _, task := range []map[string]string{ours, theirs} {
			if since := task["pending_since"]; len(since) != len(fmt.Sprint(time.Now().UnixNano())) {
				t.Errorf("pending_since = %q, want nanoseconds", since)
			}
			delete(task, "pending_since")
		}
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Errorf("the task (-asynq +ours):\n%s", diff)
		}
	})
}
