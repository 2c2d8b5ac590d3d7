package worker

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestQueueIsServedForTasksOfDeadWorkers: a queue of a cancelled evaluation is served until the tasks of workers that died
// have returned, so that their jobs are cancelled, and no longer.
func TestQueueIsServedForTasksOfDeadWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		idle := func(string) bool { return true }
		q := newQueues()
		q.serve([]string{"q"}, nil)
		time.Sleep(2*time.Minute + time.Second)
		if dropped := q.dropIdle(idle); len(dropped) > 0 {
			t.Errorf("after two minutes, %v are no longer served", dropped)
		}
		time.Sleep(time.Minute)
		if dropped := q.dropIdle(idle); len(dropped) != 1 {
			t.Errorf("after three minutes, %v are no longer served, want q", dropped)
		}
	})
}
