package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// TestCappedEvaluationBesideAnother: two evaluations share one account's limit,
// one of them with a cap of its own. The cap is used, and the other has the rest.
func TestCappedEvaluationBesideAnother(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	const account, limit = 64, 2
	f := newFleetLimited(t, account, calm)
	f.documents(40) // 3,120 runs a judge: more than the test waits for
	f.evaluation("wide", "simulator:careful", account, 1000)
	f.evaluation("narrow", "simulator:average", account, limit)
	f.startWorkers(4)
	for _, name := range []string{"wide", "narrow"} {
		if code := launch(t, f.dir, "enqueue", name+".yaml", "--redis", f.redis.URL(), "--config", "fleet.yaml").wait(); code != 0 {
			t.Fatalf("enqueue %s ended with %d", name, code)
		}
	}
	first := f.until("both have begun", func(s seen) bool {
		return s.All.Arrived >= account && s.Models["average"].Arrived >= limit
	})
	last := f.until("they have worked for a while", func(s seen) bool { return s.At.Sub(first.At) > sizedFleet(2*time.Second, 5*time.Second) })
	inFlight := func(model string) float64 {
		return (last.Models[model].InFlightSeconds - first.Models[model].InFlightSeconds) / last.At.Sub(first.At).Seconds()
	}
	wide, narrow := inFlight("careful"), inFlight("average")
	t.Logf("%.2f of %d in flight without a cap (%.1f %%), %.2f of %d with one (%.1f %%)",
		wide, account, 100*wide/account, narrow, limit, 100*narrow/limit)
	if *fullFleet && (wide < 0.95*account || narrow < 0.9*limit) {
		t.Errorf("%.2f of %d and %.2f of %d calls in flight, want at least 95 %% and 90 %%", wide, account, narrow, limit)
	}
	end := f.stats()
	if end.All.MaxInFlight > account || end.All.Rejected > 0 || end.Models["average"].MaxInFlight > limit {
		t.Errorf("limits passed: %+v", end)
	}
}

// TestRedisCommandsWhileRunsWait: ten thousand runs wait for 16 slots, and Redis
// is asked only for what happens. A command that a script makes is not counted;
// the script is.
func TestRedisCommandsWhileRunsWait(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newFleet(t, sizedFleet(40, 72), calm) // 3,120 or 10,224 runs
	const workers = 4
	f.startWorkers(workers)
	if code := launch(t, f.dir, "enqueue", f.file, "--redis", f.redis.URL(), "--config", "fleet.yaml").wait(); code != 0 {
		t.Fatalf("enqueue ended with %d", code)
	}
	// By then the queue's pace is known and its window has grown to 30 s of it.
	first := f.until("160 runs were begun", func(s seen) bool { return s.All.Arrived > 160 })
	limiter, others := countCommands(t, f.redis.URL(), sizedFleet(2*time.Second, 6*time.Second))
	last := f.stats()
	runs := float64(last.All.Arrived - first.All.Arrived)
	seconds := last.At.Sub(first.At).Seconds()
	// What a worker asks once a second and queue, and not for a run, is allowed five.
	perRun := (float64(others) - 5*workers*seconds) / runs
	t.Logf("%.0f runs in %.1f s: %.2f limiter scripts a call; %d other commands, %.2f a run beside 5/s a worker and queue (%.2f with those)",
		runs, seconds, float64(limiter)/runs, others, perRun, float64(others)/runs)
	if *fullFleet && (float64(limiter) > 2*runs || perRun > 5) {
		t.Errorf("%d limiter scripts for %.0f calls and %.2f commands a run; want at most 2 a call and 5 a run", limiter, runs, perRun)
	}
	f.wantNeverOver(last)
}

// countCommands listens to what clients send for a while, and counts the
// limiter's scripts, known by its registry's key, apart from everything else. Some
// scripts are for several runs at once.
func countCommands(t *testing.T, address string, while time.Duration) (limiter, others int) {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", parsed.Host)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), while)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = connection.Close() })()
	if _, err := fmt.Fprint(connection, "MONITOR\r\n"); err != nil {
		t.Fatal(err)
	}

	lines := bufio.NewScanner(connection)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.Contains(line, " lua] "), !strings.Contains(line, "] \""): // made by a script; not a command
		case strings.Contains(line, `}:documents"`): // each text once a worker, however many runs there are
		case strings.Contains(line, `] "evalsha" `) && strings.Contains(line, `"{ef}:`):
			limiter++
		default:
			others++
		}
	}
	return limiter, others
}
