package gate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Worker A pulls and is frozen; A counts as dead, its task is returned and
// pulled by B; A goes on and ends the task in each of asynq's ways.
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
	got, err := Recover(context.Background(), f.redis, queueName, aliveExcept("a"))
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
