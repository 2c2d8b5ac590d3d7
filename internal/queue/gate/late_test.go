package gate

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// A worker's ending of a task reaches Redis twice, as when go-redis repeats a command and Redis reads the connection
// that it has left only later. The same worker has pulled the task again between them: the late one changes nothing.
func TestLateEndingLeavesALaterPullAlone(t *testing.T) {
	t.Parallel()
	for name, test := range handledEndings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, f *fleet) {
				var mu sync.Mutex
				var ending []any // the last that was sent
				f.redis.(*redis.Client).AddHook(wire{func(cmd redis.Cmder) {
					mu.Lock()
					defer mu.Unlock()
					if args := cmd.Args(); slices.Contains(args, any(keysOf(queueName).task+"t1")) && slices.Contains(args, any("w")) {
						ending = args
					}
				}})
				started, goOn := make(chan struct{}), make(chan error)
				w := f.work("w", 1, func(context.Context, *asynq.Task) error {
					started <- struct{}{}
					return <-goOn
				}, workerOptions{})
				f.push(1, test.options...)
				w.gate.FilledAll()
				<-started
				goOn <- test.answer
				f.eventually("t1 ends", func() bool { return f.state("t1") != "active" && w.slots.allFree() })

				if f.state("t1") == "completed" {
					if err := f.inspector.DeleteTask(queueName, "t1"); err != nil {
						t.Fatal(err)
					}
				}
				if f.state("t1") == "gone" {
					f.push(1, test.options...)
				} else if err := f.inspector.RunTask(queueName, "t1"); err != nil {
					t.Fatal(err)
				}
				w.gate.FilledAll()
				<-started
				before := f.task("t1")
				mu.Lock()
				late := ending
				mu.Unlock()
				if err := f.redis.Do(t.Context(), late...).Err(); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(before, f.task("t1")); diff != "" || len(f.active()) != 1 {
					t.Errorf("the late ending changed the task of a later pull; active: %v (-before +after):\n%s", f.active(), diff)
				}

				goOn <- nil
				f.eventually("the later pull's ending", func() bool { return f.state("t1") == "gone" || f.state("t1") == "completed" })
				w.end()
				ignore := []string{}
				if test.says != "" {
					ignore = append(ignore, test.says)
				}
				if got := w.log.except(ignore...); len(got) > 0 {
					t.Errorf("asynq logged %q, want nothing", got)
				}
			})
		})
	}
}

// A late message that returns a task does not return it from a later pull of the same worker.
func TestLateReturnLeavesALaterPullAlone(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		keys := keysOf(queueName)
		pull := func(number int64) {
			t.Helper()
			answer, err := pullTasks(t.Context(), f.redis, keys, "w", number, 1, time.Now().Add(time.Hour))
			if err != nil || len(answer.tasks) != 1 {
				t.Fatalf("pulled %v, %v; want one task", answer.tasks, err)
			}
		}
		giveBack := func(number int64, want int) {
			t.Helper()
			returned, err := giveBack(t.Context(), f.redis, keys, []held{heldBy("w", "t1", number)})
			if err != nil || len(returned) != want {
				t.Errorf("pull %d: returned %v, %v; want %d", number, returned, err, want)
			}
		}
		f.push(1)
		pull(1)
		giveBack(1, 1)
		pull(2)
		giveBack(1, 0)
		if got := f.task("t1"); got["owner"] != "w" || got["state"] != "active" {
			t.Errorf("t1 is %v, want it active and owned by w", got)
		}
		giveBack(2, 1)
	})
}
