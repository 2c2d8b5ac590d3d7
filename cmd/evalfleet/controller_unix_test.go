//go:build unix

package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/controller"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/testing/pgtest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// Two controllers of one fleet do no harm, and one does the other's work when it is
// gone: what is in Redis is asked for by /scale before any worker is there, what a
// killed worker held is done by another, and every result is drained once.
func TestControllersKeepAFleet(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newFleet(t, 8, lapses) // 112 runs
	var controllers []*program
	var addresses []string
	for range 2 {
		address := testrun.FreeAddress(t)
		addresses = append(addresses, address)
		controllers = append(controllers, launch(t, f.dir, "controller", "--redis", f.redis.URL(), "--listen", "127.0.0.1:0", "--metrics-addr", address))
	}
	id := strings.TrimSpace(f.onFleet(exitOK, "enqueue", f.file, "--config", "fleet.yaml").stdout.String())
	for _, address := range addresses {
		if got := f.scale(address); got.Desired != fleetLimit {
			t.Errorf("before any worker is up /scale says %d calls at once, want %d", got.Desired, fleetLimit)
		}
	}

	f.startWorkers(1)
	f.until("30 calls were made", func(s seen) bool { return s.All.Arrived > 30 })
	f.workers[0].signal(syscall.SIGKILL)
	controllers[0].signal(syscall.SIGKILL)
	f.startWorkers(1)
	f.until("all is done and drained", func(seen) bool {
		now := f.standing()
		return now.Status == record.StatusDone && now.Uncollected == 0
	})
	f.wantNeverOver(f.stats())
	if failed := f.wantRows(outdir.Default("pairs", eval.ID(id)), f.runs); failed != 0 {
		t.Errorf("%d runs failed", failed)
	}

	testrun.EventuallyGot(t, "after the end /scale wants no calls", func() (string, bool) {
		got := f.scale(addresses[1])
		return fmt.Sprint(got.Desired), got.Desired == 0
	})
	testrun.EventuallyGot(t, "metrics say that all is drained", func() (string, bool) {
		metrics := scrape(t, addresses[1])
		drained := strings.Contains(metrics, "evalfleet_results_undrained 0")
		return metrics, drained && strings.Contains(metrics, "evalfleet_redis_up 1")
	})
	eventuallySays(t, controllers[1], "/", "pairs")

	controllers[1].signal(syscall.SIGTERM)
	if code := controllers[1].wait(); code != int(exitOK) {
		t.Errorf("stopped, a controller ends with %d, want %d", code, exitOK)
	}
}

// scale is what a controller says, once it listens.
func (f *testFleet) scale(address string) (said controller.Scale) {
	f.t.Helper()
	testrun.EventuallyGot(f.t, "the controller answers", func() (string, bool) {
		err := getJSON(f.t.Context(), "http://"+address+"/scale", &said)
		return fmt.Sprint(err), err == nil
	})
	return said
}

// With results in PostgreSQL, one of two controllers is killed while an evaluation ends:
// after the last answers and before the evaluation is done. The other one completes it,
// whichever was killed, and every result is stored once.
func TestControllerDiesAsAnEvaluationEnds(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	for victim, name := range []string{"the first", "the second"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, gate := newGated(t, 4)
			database := pgtest.New(t)
			f.writeCalm(fmt.Sprintf("providers: {simulator: {base_url: %q}}\nsink: %q\n", gate.URL+"/v1", database))
			var controllers []*program
			for range 2 {
				controllers = append(controllers, launch(t, f.dir, "controller", "--redis", f.redis.URL(), "--config", "fleet.yaml", "--listen", "127.0.0.1:0"))
			}
			f.startWorkers(1)
			id := strings.TrimSpace(f.onFleet(exitOK, "enqueue", f.file, "--config", "fleet.yaml").stdout.String())
			f.untilHeld(gate, fleetLimit)
			gate.open()
			f.until("every call is answered", func(s seen) bool { return s.All.Answered >= f.runs })
			controllers[victim].signal(syscall.SIGKILL)
			f.until("the evaluation is done", func(seen) bool { return f.standing().Status == record.StatusDone })
			conn, err := pgx.Connect(t.Context(), database)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.Background())
			var runs, verdicts, finished int
			testrun.EventuallyGot(t, "the end of the evaluation to be stored", func() (string, bool) {
				err = conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM runs WHERE state = 'succeeded'), (SELECT count(*) FROM pairwise_results),
					(SELECT count(*) FROM evaluations WHERE finished_at > created_at)`).Scan(&runs, &verdicts, &finished)
				return fmt.Sprintf("%d runs, %d verdicts, %d finished evaluations, %v", runs, verdicts, finished, err), finished == 1
			})
			if err != nil || runs != f.runs || verdicts != f.runs {
				t.Errorf("%d runs and %d verdicts in the database, %v; want %d of each", runs, verdicts, err, f.runs)
			}
			if now := f.standing(); now.Uncollected != 0 {
				t.Errorf("%d results are not collected at the end, want none", now.Uncollected)
			}
			if got := f.stats().All.Arrived; got != f.runs {
				t.Errorf("%d calls arrived, want %d", got, f.runs)
			}
			eventuallySays(t, controllers[1-victim], "/evaluations/"+id, "done")
		})
	}
}
