//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/outdir"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/internal/view"
)

// do runs a command to its end and wants its exit code.
func (f *testFleet) do(code exit, args ...string) *program {
	f.t.Helper()
	p := launch(f.t, f.dir, args...)
	if got := p.wait(); got != int(code) {
		f.t.Fatalf("evalfleet %s ended with %d, want %d", strings.Join(args, " "), got, code)
	}
	return p
}

// onFleet is do with the fleet's Redis.
func (f *testFleet) onFleet(code exit, args ...string) *program {
	f.t.Helper()
	return f.do(code, append(args, "--redis", f.redis.URL())...)
}

// untilQuiet waits until nothing has been called for a second.
func (f *testFleet) untilQuiet(s *turnstile) {
	f.t.Helper()
	last, since := -1, time.Time{}
	testrun.EventuallyGot(f.t, "no call is begun", func() (string, bool) {
		now := f.stats().All.Arrived + int(s.held.Load())
		if now != last {
			last, since = now, time.Now()
		}
		return fmt.Sprint(now, " calls begun"), time.Since(since) > time.Second
	})
}

// statuses returns what `status --json` says of each evaluation.
func (f *testFleet) statuses() map[eval.ID]view.Evaluation {
	f.t.Helper()
	list := looked[[]view.Evaluation](f.t, f.dir, "status", "--redis", f.redis.URL())
	of := map[eval.ID]view.Evaluation{}
	for _, e := range list {
		of[e.ID] = e
	}
	if len(of) != len(list) {
		f.t.Errorf("status --json names %d evaluations in %d entries", len(of), len(list))
	}
	return of
}

// standing returns what `status --json` says of the only evaluation.
func (f *testFleet) standing() view.Evaluation {
	f.t.Helper()
	all := f.statuses()
	if len(all) != 1 {
		f.t.Fatalf("status --json: %d evaluations, want 1", len(all))
	}
	for _, e := range all {
		return e
	}
	panic("unreachable")
}

// TestRunIsPausedResumedInterruptedAndResumed from a second terminal, and again
// when its files have moved.
func TestRunIsPausedResumedInterruptedAndResumed(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f, calls := newGated(t, 9) // 144 runs
	run := launch(t, f.dir, "run", f.file, "--config", "fleet.yaml", "--out-dir", "out")
	calls.allow(20)
	f.untilHeld(calls, fleetLimit)
	for range 2 {
		f.do(exitOK, "pause", "out")
	}
	calls.allow(60) // more than were begun before the pause
	f.untilQuiet(calls)
	if held := calls.held.Load(); held != 0 {
		t.Fatalf("%d calls were begun in spite of the pause", held)
	}

	f.do(exitOK, "resume", "out")
	f.untilHeld(calls, fleetLimit)
	run.signal(syscall.SIGINT)
	testrun.Eventually(t, "the run begins no other call", func() bool {
		return strings.Contains(run.stderr.String(), "stopping: ")
	})
	calls.open()
	if code := run.wait(); code != int(exitInterrupted) {
		t.Fatalf("exit code %d, want %d", code, exitInterrupted)
	}
	if last := lastLine(run.stderr.String()); !strings.HasSuffix(last, ": evalfleet resume out") {
		t.Errorf("the last line is %q; want it to say how to resume", last)
	}

	f.do(exitUsage, "pause", "out")
	if err := os.Rename(filepath.Join(f.dir, "docs"), filepath.Join(f.dir, "moved")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{f.file, filepath.Join(f.dir, "fleet.yaml")} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	f.do(exitOK, "resume", "out")
	f.wantRowsOnce()
	if s := f.stats(); s.All.Arrived != f.runs {
		t.Errorf("%d calls for %d runs", s.All.Arrived, f.runs)
	} else {
		f.wantNeverOver(s)
	}
	f.do(exitOK, "resume", "out") // nothing is left
	if s := f.stats(); s.All.Arrived != f.runs {
		t.Errorf("%d calls for %d runs after resuming what was done", s.All.Arrived, f.runs)
	}
}

// TestCancelledRunEndsAndCanBeResumed: recorded results are reported, and the folder resumes
// where it was.
func TestCancelledRunEndsAndCanBeResumed(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f, calls := newGated(t, 6) // 60 runs
	run := launch(t, f.dir, "run", f.file, "--config", "fleet.yaml", "--out-dir", "out")
	calls.allow(20)
	f.untilHeld(calls, fleetLimit)
	f.do(exitOK, "cancel", "out")
	calls.open()
	if code := run.wait(); code != int(exitRunsFailed) {
		t.Fatalf("exit code %d, want %d", code, exitRunsFailed)
	}
	if last := lastLine(run.stderr.String()); !strings.Contains(last, "cancelled") || !strings.HasSuffix(last, "evalfleet resume out") {
		t.Errorf("the last line is %q", last)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "out", outdir.ReportFile)); err != nil {
		t.Errorf("no report on what there is: %v", err)
	}
	if arrived := f.stats().All.Arrived; arrived >= f.runs {
		t.Fatalf("all %d calls were made before the cancellation", arrived)
	}
	s := f.inFolder("out")
	if p := s.Phases[0]; s.Status != record.StatusCancelled || p.Cancelled == 0 || p.Succeeded+p.Cancelled != f.runs {
		t.Errorf("status of the folder: %s, %+v; want cancelled, and all %d ended", s.Status, p, f.runs)
	}
	f.do(exitOK, "resume", "out")
	f.wantRowsOnce()
	if s := f.inFolder("out"); s.Status != record.StatusDone || s.Phases[0].Cancelled != 0 {
		t.Errorf("status of the folder once it was resumed: %s, %+v; want done", s.Status, s.Phases[0])
	}
}

// TestFailedRunsAreRetriedByClass, in a folder and in a fleet.
func TestFailedRunsAreRetriedByClass(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f := newFleet(t, 3, calm) // 12 runs, whose failures do not pause the provider
	broken := launch(t, f.dir, "simulate", "--listen", "127.0.0.1:0", "--fail-rate", "1", "--fail-status", "400")
	f.write("broken.yaml", fmt.Sprintf("providers: {simulator: {base_url: %q}}\n", broken.line()+"/v1"))

	f.do(exitRunsFailed, "run", f.file, "--config", "broken.yaml", "--out-dir", "out")
	f.do(exitUsage, "retry", "out", "--class", "bad_reqest")
	f.do(exitOK, "retry", "out", "--class", "timeout", "--config", "fleet.yaml") // none is of it
	if n := f.stats().All.Arrived; n != 0 {
		t.Errorf("%d calls for runs of another class", n)
	}
	f.do(exitOK, "retry", "out", "--class", "bad_request", "--config", "fleet.yaml")
	f.wantRowsOnce()

	f.onFleet(exitOK, "enqueue", f.file, "--config", "fleet.yaml", "--again", "fleet")
	worker := launch(t, f.dir, "worker", "--redis", f.redis.URL(), "--config", "broken.yaml")
	f.untilStanding("every run fails", func(s view.Evaluation) bool { return s.Status == record.StatusDone })
	worker.signal(syscall.SIGTERM)
	worker.wait()
	id := string(f.standing().ID)
	f.onFleet(exitUsage, "retry", id, "--class", "bad_request", "--out-dir", "fleet-out") // nothing is collected there
	f.onFleet(exitOK, "collect", id, "--out-dir", "fleet-out")
	f.onFleet(exitOK, "retry", id, "--class", "bad_request", "--out-dir", "fleet-out")
	f.startWorkers(1)
	f.onFleet(exitOK, "collect", id, "--follow", "--out-dir", "fleet-out")
	if s := f.standing(); s.Phases[0].Succeeded != f.runs || s.Phases[0].Failed != 0 {
		t.Errorf("after the retry: %+v; want %d succeeded", s.Phases, f.runs)
	}
	f.onFleet(exitOK, "enqueue", f.file, "--config", "fleet.yaml", "--again", "fleet", "--retry-failed", "--wait", "--out-dir", "fleet-out")
}

// inFolder is what status says of an output folder's evaluation.
func (f *testFleet) inFolder(dir string) view.Evaluation {
	f.t.Helper()
	var list []view.Evaluation
	if err := json.Unmarshal([]byte(f.do(exitOK, "status", "--json", dir).stdout.String()), &list); err != nil || len(list) != 1 {
		f.t.Fatalf("status --json %s: %d evaluations, %v; want 1", dir, len(list), err)
	}
	return list[0]
}

// untilStanding polls `status --json` until a condition holds.
func (f *testFleet) untilStanding(what string, holds func(view.Evaluation) bool) {
	f.t.Helper()
	testrun.EventuallyGot(f.t, what, func() (string, bool) {
		now := f.standing()
		return fmt.Sprintf("%+v", now), holds(now)
	})
}

// TestFleetsEvaluationIsSteered: pause, resume, cancel and delete by id, while
// workers run.
func TestFleetsEvaluationIsSteered(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	f, calls := newGated(t, 9) // 144 runs
	f.startWorkers(2)
	f.onFleet(exitOK, "enqueue", f.file, "--config", "fleet.yaml")
	id := string(f.standing().ID)
	calls.allow(20)
	f.untilHeld(calls, fleetLimit)
	f.onFleet(exitOK, "pause", id)
	calls.allow(60) // more than were begun before the pause
	f.untilQuiet(calls)
	if held := calls.held.Load(); held != 0 {
		t.Fatalf("%d calls were begun in spite of the pause", held)
	}

	f.onFleet(exitOK, "resume", id)
	f.untilHeld(calls, fleetLimit)
	for range 2 {
		f.onFleet(exitOK, "cancel", id)
	}
	calls.open()
	f.untilStanding("every run has ended", func(s view.Evaluation) bool {
		return s.Phases[0].Succeeded+s.Phases[0].Cancelled == f.runs
	})

	s := f.standing()
	if s.Status != record.StatusCancelled || s.Phases[0].Succeeded+s.Phases[0].Cancelled != f.runs {
		t.Errorf("after the cancellation: %+v; want %d ended", s, f.runs)
	}
	if s.Uncollected < int64(s.Phases[0].Succeeded) {
		t.Errorf("%d results wait for a collector, want the %d that succeeded", s.Uncollected, s.Phases[0].Succeeded)
	}
	for _, command := range []string{"resume", "pause", "retry"} {
		f.onFleet(exitUsage, command, id)
	}
	f.onFleet(exitUsage, "enqueue", f.file, "--config", "fleet.yaml")
	refused := f.onFleet(exitUsage, "delete", id)
	if last := lastLine(refused.stderr.String()); !strings.Contains(last, "evalfleet collect "+id) {
		t.Errorf("delete with results that were not collected says %q", last)
	}
	f.onFleet(exitOK, "collect", id, "--out-dir", "out")
	if s := f.inFolder("out"); s.Status != record.StatusCancelled {
		t.Errorf("status of the folder into which it was collected: %s, want cancelled", s.Status)
	}
	var limits view.Limits
	if err := json.Unmarshal([]byte(f.onFleet(exitOK, "limits", id, "--json", "--out-dir", "out").stdout.String()), &limits); err != nil ||
		!limits.Ended || string(limits.Evaluation) != id || len(limits.Limits) == 0 {
		t.Errorf("limits of what was cancelled: %+v, %v; want those that were in force", limits, err)
	}

	f.onFleet(exitOK, "delete", id)
	f.onFleet(exitUsage, "delete", id)
	client := f.redis.Client()
	// A worker takes it off the list of active evaluations when it next looks for runs to push.
	testrun.EventuallyGot(t, "no key is left", func() (string, bool) {
		keys := client.Keys(t.Context(), "ef:{*").Val()
		return fmt.Sprint(keys), len(keys) == 0
	})
	testrun.EventuallyGot(t, "its limits are unpinned", func() (string, bool) {
		pins := client.HKeys(t.Context(), "{ef}:limits").Val()
		return fmt.Sprint(pins), !slices.Contains(pins, id)
	})
	f.wantNeverOver(f.stats())
}
