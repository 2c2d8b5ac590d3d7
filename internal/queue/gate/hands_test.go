package gate

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
)

// handledEndings are asynq's ways of ending a task whose handler has run.
var handledEndings = map[string]struct {
	options []asynq.Option
	answer  error  // of the first handler
	says    string // what asynq logs about any such ending
}{
	"done":      {},
	"completed": {options: []asynq.Option{asynq.Retention(time.Hour)}},
	"retry":     {answer: errors.New("no")},
	"archive":   {answer: asynq.SkipRetry, says: "Retry exhausted"},
}

// Redis forgets a task that a worker has in hand, and it is pushed again. The same worker pulls it
// while its first handler still runs, which then ends in each of asynq's ways.
func TestTaskIsInHandOnce(t *testing.T) {
	t.Parallel()
	for name, test := range handledEndings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, f *fleet) {
				started, goOn := make(chan string, 9), make(chan error)
				defer close(goOn)
				var running, most atomic.Int64
				w := f.work("w", 4, func(ctx context.Context, _ *asynq.Task) error {
					id, _ := asynq.GetTaskID(ctx)
					if id == "t2" {
						started <- id
						return nil
					}
					most.Store(max(most.Load(), running.Add(1)))
					defer running.Add(-1)
					started <- id
					return <-goOn
				}, workerOptions{})
				f.push(1, test.options...)
				w.gate.FilledAll()
				<-started

				if err := f.redis.FlushDB(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				if err := List(t.Context(), f.redis, queueName); err != nil { // asynq's client does so once
					t.Fatal(err)
				}
				f.push(2, test.options...)
				w.gate.FilledAll()
				for <-started != "t2" { // which is pulled with t1 or after it
				}
				goOn <- test.answer
				f.eventually("t1 begins again", func() bool { return len(started) > 0 || most.Load() > 1 })
				if n := most.Load(); n > 1 {
					t.Fatalf("%d handlers have t1 at once, want 1", n)
				}
				if got := f.task("t1"); got["owner"] != "w" || got["state"] != "active" {
					t.Errorf("while its second handler runs, t1 is %v; want it active and owned by w", got)
				}
				goOn <- nil
				want := "gone"
				if name == "completed" {
					want = name
				}
				f.eventually("t1 has ended", func() bool { return f.state("t1") == want })
				w.end()
				if !w.slots.allFree() {
					t.Error("permits are missing")
				}
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
