package main

import (
	"context"
	"encoding/json"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/evalfleet/evalfleet/bench/peers/witness"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
)

// bound is a single Go process that keeps its limits in memory. It cannot be scaled out and
// forgets everything when it ends; it shows what one machine allows.
type bound struct{ self string }

func (bound) name() string { return "one process" }

func (bound) enqueue(context.Context, env) error { return nil }

func (b bound) worker(ctx context.Context, e env) (*exec.Cmd, error) {
	raw, err := json.Marshal(e.job)
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, b.self, "bound-worker", string(raw)), nil
}

// runBound executes all runs of a job, then waits for ctx.
func runBound(ctx context.Context, j job) error {
	client := witness.NewClient(j.URL)
	group, ctx := errgroup.WithContext(ctx)
	for _, q := range j.Queues {
		allowed := func(context.Context) error { return nil }
		switch {
		case q.Max > 0:
			allowed = newWindow(q.Max, time.Duration(q.WindowMS)*time.Millisecond).wait
		case q.Burst > 0:
			allowed = rate.NewLimiter(rate.Limit(q.Rate), q.Burst).Wait
		}
		runs := make(chan int)
		group.Go(func() error {
			defer close(runs)
			for n := range q.Runs {
				select {
				case runs <- n:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
		inFlight := q.InFlight
		if inFlight == 0 {
			inFlight = 4 * j.Concurrency
		}
		for range inFlight {
			group.Go(func() error {
				for n := range runs {
					for {
						if err := allowed(ctx); err != nil {
							return err
						}
						wait, err := client.Call(ctx, q.Model, q.Model+" "+strconv.Itoa(n))
						if err != nil {
							return err
						}
						if wait == 0 {
							break
						}
						if err := outage.Pause(ctx, wait); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
	}

	if err := group.Wait(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// window allows max calls in any period, exactly, on the clock of the process.
type window struct {
	period time.Duration
	slots  chan time.Time // when each of the last max calls was allowed
}

func newWindow(max int, period time.Duration) *window {
	w := &window{period, make(chan time.Time, max)}
	for range max {
		w.slots <- time.Time{}
	}
	return w
}

func (w *window) wait(ctx context.Context) error {
	select {
	case last := <-w.slots:
		if err := outage.Pause(ctx, time.Until(last.Add(w.period))); err != nil {
			return err
		}
		w.slots <- time.Now()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
