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
)

// TestCappedEvaluationBesideAnother: two evaluations share one account's limit,
// one of them with a cap of its own. The cap is used, and the other has the rest.
func TestCappedEvaluationBesideAnother(t *testing.T) {
	const account, limit = 64, 2
	f := newFleetLimited(t, account)
	f.documents(40) // 3,120 runs a judge: more than the test waits for
	f.evaluation("wide", "simulator:careful", account, 1000)
	f.evaluation("narrow", "simulator:average", account, limit)
	f.startWorkers(4)
	for _, name := range []string{"wide", "narrow"} {
		if code := launch(t, f.dir, "enqueue", name+".yaml", "--redis", f.redis.URL(), "--config", "fleet.yaml").wait(time.Minute); code != 0 {
			t.Fatalf("enqueue %s ended with %d", name, code)
		}
	}
	full := func(s seen) bool { return s.All.InFlight >= account-1 && s.Models["average"].InFlight == limit }
	first := f.until("both are at their limits", time.Minute, full)
	last := f.until("they have worked for a while", time.Minute, func(s seen) bool { return s.At.Sub(first.At) > 5*time.Second })
	inFlight := func(model string) float64 {
		return (last.Models[model].InFlightSeconds - first.Models[model].InFlightSeconds) / last.At.Sub(first.At).Seconds()
	}
	wide, narrow := inFlight("careful"), inFlight("average")
	t.Logf("%.2f of %d in flight without a cap (%.1f %%), %.2f of %d with one (%.1f %%)",
		wide, account, 100*wide/account, narrow, limit, 100*narrow/limit)
	least, leastNarrow := 0.75, 0.75 // 5 s of a machine that does much else
	if *fullFleet {
		least, leastNarrow = 0.95, 0.9
	}
	if wide < least*account {
		t.Errorf("%.2f calls in flight without a cap, want %.0f %% of %d", wide, 100*least, account)
	}
	if narrow < leastNarrow*limit {
		t.Errorf("%.2f calls in flight under a cap of %d, want at least %.0f %%", narrow, limit, 100*leastNarrow)
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
	f := newFleet(t, 72) // 10,224 runs
	const workers = 4
	f.startWorkers(workers)
	if code := launch(t, f.dir, "enqueue", f.file, "--redis", f.redis.URL(), "--config", "fleet.yaml").wait(time.Minute); code != 0 {
		t.Fatalf("enqueue ended with %d", code)
	}
	// By then the queue's pace is known and its window has grown to 30 s of it.
	first := f.until("160 runs were begun", time.Minute, func(s seen) bool { return s.All.Arrived > 160 })
	limiter, others := countCommands(t, f.redis.URL(), 6*time.Second)
	last := f.stats()
	runs := float64(last.All.Arrived - first.All.Arrived)
	seconds := last.At.Sub(first.At).Seconds()
	// What a worker asks once a second and queue, and not for a run, is allowed five.
	perRun := (float64(others) - 5*workers*seconds) / runs
	t.Logf("%.0f runs in %.1f s: %.2f limiter scripts a call; %d other commands, %.2f a run beside 5/s a worker and queue (%.2f with those)",
		runs, seconds, float64(limiter)/runs, others, perRun, float64(others)/runs)
	// The promises are 2 and 5; a shared machine adds a tenth, and a mistake a whole
	// one.
	mostScripts, most := 2.3, 5.5
	if *fullFleet {
		mostScripts, most = 2, 5
	}
	if float64(limiter) > mostScripts*runs {
		t.Errorf("%d limiter scripts for %.0f calls, want at most %.1f a call", limiter, runs, mostScripts)
	}
	if perRun > most {
		t.Errorf("%.2f commands a run, want at most %.1f", perRun, most)
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
	ctx, cancel := context.WithTimeout(t.Context(), while)
	defer cancel()
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", parsed.Host)
	if err != nil {
		t.Fatal(err)
	}
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
