package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Worker A pulls and is frozen; A counts as dead, its task is returned and pulled by B; A
// continues and ends the task in each of asynq's ways.
func TestForeignTaskIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options []asynq.Option
		answer  error  // of A's handler
		requeue bool   // A's handler does not answer: A shuts down
		says    string // what asynq logs about any such ending, owned or not
	}{
		"done":             {},
		"done unique":      {options: []asynq.Option{asynq.Unique(time.Hour)}},
		"completed":        {options: []asynq.Option{asynq.Retention(time.Hour)}},
		"completed unique": {options: []asynq.Option{asynq.Retention(time.Hour), asynq.Unique(time.Hour)}},
		"retry":            {answer: errors.New("no")},
		"archive":          {answer: asynq.SkipRetry, says: "Retry exhausted"},
		"requeue":          {requeue: true, says: "Quitting worker"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, f *fleet) {
				f.push(1, test.options...)
				started, thaw := make(chan struct{}), make(chan struct{})
				type ending struct {
					reply any
					err   error
				}
				ended := make(chan ending, 10)
				a := f.work("a", 1, func(context.Context, *asynq.Task) error {
					close(started)
					<-thaw
					return test.answer
				}, workerOptions{
					shutdownTimeout: 10 * time.Millisecond,
					wrap: func(c redis.UniversalClient) redis.UniversalClient {
						return observed{c, func(_ string, keys []string, cmd *redis.Cmd) {
							// The first call of each script is answered NOSCRIPT, to see its text.
							if _, ok := endedTask(keys); ok && !errors.Is(cmd.Err(), redis.ErrNoScript) {
								ended <- ending{cmd.Val(), cmd.Err()}
							}
						}}
					},
				})
				<-started
				f.recover("t1")

				bStarted, bGoOn := make(chan struct{}), make(chan struct{})
				b := f.work("b", 1, func(context.Context, *asynq.Task) error {
					close(bStarted)
					<-bGoOn
					return nil
				}, workerOptions{})
				<-bStarted
				before := f.task("t1")

				if test.requeue {
					if err := a.gate.Stop(t.Context()); err != nil {
						t.Fatal(err)
					}
					go a.server.Shutdown()
				} else {
					close(thaw)
				}
				if got := <-ended; got.err != nil || got.reply != "OK" {
					t.Errorf("A's ending was answered %v, %v; want OK", got.reply, got.err)
				}
				if diff := cmp.Diff(before, f.task("t1")); diff != "" {
					t.Errorf("A changed B's task (-before +after):\n%s", diff)
				}
				if before["owner"] != "b" || before["state"] != "active" {
					t.Errorf("B's task is %v, want active and owned by b", before)
				}
				if got := f.active(); len(got) != 1 || len(f.pending()) != 0 {
					t.Errorf("active = %v, pending = %v; want [t1] and none", got, f.pending())
				}

				close(bGoOn)
				want := "gone"
				if strings.HasPrefix(name, "completed") {
					want = "completed"
				}
				f.eventually("B's ending", func() bool { return f.state("t1") == want })
				if test.requeue {
					close(thaw)
				}
				a.end()
				b.end()
				ignore := []string{}
				if test.says != "" {
					ignore = append(ignore, test.says)
				}
				if got := append(a.log.except(ignore...), b.log.except()...); len(got) > 0 {
					t.Errorf("asynq logged %q, want nothing", got)
				}
			})
		})
	}
}

// What a handler writes as its task's result is there once the task has ended,
// and a worker that is no longer the task's writes none.
func TestResultGoesWithTheEnding(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		f.push(1, asynq.Retention(time.Hour))
		write := func(result string) asynq.HandlerFunc {
			return func(_ context.Context, task *asynq.Task) error {
				_, err := task.ResultWriter().Write([]byte(result))
				return err
			}
		}
		started, thaw := make(chan struct{}), make(chan struct{})
		a := f.work("a", 1, func(ctx context.Context, task *asynq.Task) error {
			close(started)
			<-thaw
			return write("of a")(ctx, task)
		}, workerOptions{})
		<-started
		f.recover("t1")
		bStarted, bGoOn := make(chan struct{}), make(chan struct{})
		b := f.work("b", 1, func(ctx context.Context, task *asynq.Task) error {
			close(bStarted)
			<-bGoOn
			return write("of b")(ctx, task)
		}, workerOptions{})
		<-bStarted
		close(thaw)
		a.end()
		if got := f.task("t1")["result"]; got != "" {
			t.Errorf("the result is %q before the task has ended, want none", got)
		}
		close(bGoOn)
		f.eventually("B's ending", func() bool { return f.state("t1") == "completed" })
		b.end()
		if got := f.task("t1")["result"]; got != "of b" {
			t.Errorf("the result is %q, want that of b", got)
		}
	})
}

// An ending whose answer was lost is sent again, by go-redis or by asynq.
func TestEndingTwiceIsAnsweredOK(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f *fleet) {
		f.push(1, asynq.Retention(time.Hour))
		g, _ := f.by("w1", 1)
		if !f.pullBy(g) {
			t.Fatal("answered as empty")
		}
		k := keysOf(queueName)
		script := redis.NewScript(`redis.call("LREM", KEYS[1], 0, ARGV[1]); redis.call("INCR", "n"); return redis.status_reply("OK")`)
		for range 2 {
			got, err := script.Run(t.Context(), g.Client(), []string{k.active, k.lease, k.task + "t1"}, "t1").Text()
			if err != nil || got != "OK" {
				t.Errorf("answered %q, %v; want OK", got, err)
			}
		}
		if n := f.redis.Get(t.Context(), "n").Val(); n != "1" {
			t.Errorf("ran %s times, want 1", n)
		}
		if diff := cmp.Diff(map[string]string{"state": "active"}, f.task("t1")); diff != "" {
			t.Errorf("an ended task keeps its owner (-want +got):\n%s", diff)
		}
	})
}

// recover returns the tasks of worker a, which must be these.
func (f *fleet) recover(want ...string) {
	f.t.Helper()
	got, err := recoverIDs(context.Background(), f.redis, queueName, aliveExcept("a"))
	if err != nil {
		f.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Fatalf("returned (-want +got):\n%s", diff)
	}
}

func aliveExcept(dead ...string) func(context.Context, []string) (map[string]bool, error) {
	return func(_ context.Context, owners []string) (map[string]bool, error) {
		living := map[string]bool{}
		for _, owner := range owners {
			living[owner] = true
		}
		for _, owner := range dead {
			delete(living, owner)
		}
		return living, nil
	}
}

// Tasks that end at the same time share scripts, and each has its own answer: one
// that is gone from the active list is an error to asynq, one that is another
// worker's is left alone.
func TestEndingsTogether(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]asynq.Option{
		"done":      nil,
		"completed": {asynq.Retention(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, f *fleet) {
				const tasks = 30
				f.push(tasks, options...)
				var sent atomic.Int64
				f.redis.AddHook(wire{func(cmd redis.Cmder) {
					words := fmt.Sprint(cmd.Args()...)
					others := strings.Count(words, "}:t:t") > strings.Count(words, "}:t:t5") // asynq repeats that of t5
					if cmd.Name() == "evalsha" && strings.Contains(words, "}:processed") && others {
						sent.Add(1)
					}
				}})
				var held sync.WaitGroup
				held.Add(tasks)
				thaw := make(chan struct{})
				w := f.work("w", tasks, func(context.Context, *asynq.Task) error {
					held.Done()
					<-thaw
					return nil
				}, workerOptions{})
				held.Wait()
				w.gate.endings.pause = time.Second // on a slow machine, too, ends come together
				k := keysOf(queueName)
				f.redis.LRem(t.Context(), k.active, 0, "t5")
				f.redis.HSet(t.Context(), k.task+"t6", "owner", "another")
				close(thaw)
				f.eventually("the others have ended", func() bool { return len(f.active()) == 1 })
				f.eventually("asynq is told of the missing one", func() bool { return len(w.log.except()) > 0 })
				if got := w.log.except("NOT FOUND"); len(got) > 0 {
					t.Errorf("asynq logged %q", got)
				}
				if got := f.active(); got[0] != "t6" || f.task("t6")["owner"] != "another" {
					t.Errorf("active = %v, owned by %q; want t6 and another", got, f.task("t6")["owner"])
				}
				info, err := f.inspector.GetQueueInfo(queueName)
				if err != nil || info.Processed != tasks-2 || info.ProcessedTotal != tasks-2 {
					t.Errorf("%d processed today, %d in all, %v; want %d", info.Processed, info.ProcessedTotal, err, tasks-2)
				}
				for _, id := range []string{"t1", "t30"} {
					if got, want := f.state(id), map[string]string{"done": "gone", "completed": "completed"}[name]; got != want {
						t.Errorf("%s is %s, want %s", id, got, want)
					}
				}
				if leases := f.redis.ZRange(t.Context(), k.lease, 0, -1).Val(); len(leases) != 2 {
					t.Errorf("leases of %v, want of t5 and t6", leases)
				}
				if ttl := f.redis.TTL(t.Context(), "asynq:{"+queueName+"}:processed:"+time.Now().UTC().Format("2006-01-02")).Val(); ttl < 24*time.Hour {
					t.Errorf("the day's count expires in %s", ttl)
				}
				if n := sent.Load(); n > tasks/2 {
					t.Errorf("%d scripts ended %d tasks", n, tasks)
				}
			})
		})
	}
}
