//go:build unix

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// TestFleetRollingRestart: each of four workers is replaced in the middle of an
// evaluation, as an upgrade does it. Every run is recorded once and no call is made
// twice, the limit is kept, and slots stay in use.
func TestFleetRollingRestart(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	for _, c := range []struct {
		name        string
		surge       bool // the next worker starts before the last one ends
		controllers int  // restarted, too, after each worker
	}{
		{"one after another", false, 0},
		{"surge, and two controllers", true, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, sizedFleet(8, 32), calm) // 112 or 1,984 runs
			r := &restart{testFleet: f, surge: c.surge}
			for range c.controllers {
				r.controllers = append(r.controllers, r.controller())
			}
			f.startWorkers(4)
			args := []string{"enqueue", f.file, "--redis", f.redis.URL(), "--config", "fleet.yaml"}
			out := "out"
			if c.controllers == 0 {
				args = append(args, "--wait", "--out-dir", out)
			}
			enqueue := launch(t, f.dir, args...)
			first := f.until("as many calls were begun as there are slots", func(s seen) bool { return s.All.Arrived >= fleetLimit })
			for i := range f.workers {
				f.until("the next part has been begun", func(s seen) bool { return s.All.Arrived >= f.runs*(i+1)/(len(f.workers)+1) })
				r.replaceWorker(i)
				if c.controllers > 0 {
					r.replaceController(i % c.controllers)
				}
			}
			last := f.until("the last run was begun", func(s seen) bool { return s.All.Arrived >= f.runs })
			if code := enqueue.wait(); code != int(exitOK) {
				t.Fatalf("enqueue ended with %d", code)
			}
			if c.controllers > 0 {
				out = outdir.Default("pairs", eval.ID(strings.TrimSpace(enqueue.stdout.String())))
				f.until("all is drained", func(seen) bool {
					now := f.standing()
					return now.Status == record.StatusDone && now.Uncollected == 0
				})
			}
			if failed := f.wantRows(out, f.runs); failed != 0 {
				t.Errorf("%d of %d runs have not succeeded", failed, f.runs)
			}
			end := f.stats()
			f.wantNeverOver(end)
			if end.All.Arrived != f.runs || end.All.Retaken != 0 {
				t.Errorf("%d calls for %d runs, %d of them for a second time", end.All.Arrived, f.runs, end.All.Retaken)
			}
			used := f.inUse(first, last)
			t.Logf("%.1f %% of %d slots in use over %s", 100*used, fleetLimit, last.At.Sub(first.At).Round(time.Millisecond))
			if *fullFleet && used < 0.9 {
				t.Errorf("%.1f %% of the slots in use, want 90 %%", 100*used)
			}
		})
	}
}

// restart is a fleet whose processes are replaced.
type restart struct {
	*testFleet
	surge       bool
	controllers []*program
}

func (r *restart) controller() *program {
	return launch(r.t, r.dir, "controller", "--redis", r.redis.URL(), "--listen", "off", "--metrics-addr", "off")
}

func (r *restart) replaceWorker(i int) {
	old := r.workers[i]
	begin := func() {
		r.startWorkers(1)
		last := len(r.workers) - 1
		r.workers[i], r.workers = r.workers[last], r.workers[:last]
	}
	if r.surge {
		begin()
	}
	r.stop(old)
	if !r.surge {
		begin()
	}
}

func (r *restart) replaceController(i int) {
	r.stop(r.controllers[i])
	r.controllers[i] = r.controller()
}

// stop ends a program as an upgrade does.
func (r *restart) stop(p *program) {
	r.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != int(exitOK) {
		r.t.Fatalf("stopped, %v ended with %d, want %d", p.cmd.Args[1], code, exitOK)
	}
}
