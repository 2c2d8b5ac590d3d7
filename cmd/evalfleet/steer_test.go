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

	"github.com/evalfleet/evalfleet/internal/record"
)

// do runs a command to its end and wants its exit code.
func (f *fleet) do(code exit, args ...string) *program {
	f.t.Helper()
	p := launch(f.t, f.dir, args...)
	if got := p.wait(time.Minute); got != int(code) {
		f.t.Fatalf("evalfleet %s ended with %d, want %d", strings.Join(args, " "), got, code)
	}
	return p
}

// onFleet is do with the fleet's Redis.
func (f *fleet) onFleet(code exit, args ...string) *program {
	f.t.Helper()
	return f.do(code, append(args, "--redis", f.redis.URL())...)
}

// wantQuiet fails when the simulator is called later than a second from now.
func (f *fleet) wantQuiet() {
	f.t.Helper()
	time.Sleep(time.Second)
	before := f.stats().All.Arrived
	time.Sleep(time.Second)
	if late := f.stats().All.Arrived - before; late > 0 {
		f.t.Errorf("%d calls were begun later than a second after the command", late)
	}
}

// standing is what `status --json` says of the only evaluation.
func (f *fleet) standing() standing {
	f.t.Helper()
	var list []standing
	if err := json.Unmarshal([]byte(f.onFleet(exitOK, "status", "--json").stdout.String()), &list); err != nil || len(list) != 1 {
		f.t.Fatalf("status --json: %d evaluations, %v; want 1", len(list), err)
	}
	return list[0]
}

// TestRunIsPausedResumedInterruptedAndResumed from a second terminal, and again
// when its files have moved.
func TestRunIsPausedResumedInterruptedAndResumed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 9) // 144 runs, 4.5 s
	run := launch(t, f.dir, "run", f.file, "--config", "fleet.yaml", "--out-dir", "out")
	f.until("calls were made", time.Minute, func(s seen) bool { return s.All.Arrived > 20 })
	for range 2 {
		f.do(exitOK, "pause", "out")
	}
	f.wantQuiet()
	if arrived := f.stats().All.Arrived; arrived >= f.runs {
		t.Fatalf("all %d calls were made before the pause", arrived)
	}
	f.do(exitOK, "resume", "out")
	f.until("it goes on", time.Minute, func(s seen) bool { return s.All.Arrived > 70 })
	run.signal(syscall.SIGINT)
	if code := run.wait(time.Minute); code != int(exitInterrupted) {
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

// TestCancelledRunEndsAndCanBeResumed: what is recorded is reported, and the
// folder goes on where it was.
func TestCancelledRunEndsAndCanBeResumed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 9)
	run := launch(t, f.dir, "run", f.file, "--config", "fleet.yaml", "--out-dir", "out")
	f.until("calls were made", time.Minute, func(s seen) bool { return s.All.Arrived > 40 })
	f.do(exitOK, "cancel", "out")
	if code := run.wait(time.Minute); code != int(exitRunsFailed) {
		t.Fatalf("exit code %d, want %d", code, exitRunsFailed)
	}
	if last := lastLine(run.stderr.String()); !strings.Contains(last, "cancelled") || !strings.HasSuffix(last, "evalfleet resume out") {
		t.Errorf("the last line is %q", last)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "out", reportFile)); err != nil {
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
	t.Parallel()
	f := newFleet(t, 4) // 24 runs
	broken := launch(t, f.dir, "simulate", "--listen", "127.0.0.1:0", "--fail-rate", "1", "--fail-status", "400")
	url := eventually(t, "the broken provider's address", func() string {
		url, _, _ := strings.Cut(broken.stdout.String(), "\n")
		return url
	})
	f.write("broken.yaml", fmt.Sprintf("providers: {simulator: {base_url: %q}}\n", url+"/v1"))

	f.do(exitRunsFailed, "run", f.file, "--config", "broken.yaml", "--out-dir", "out")
	f.do(exitUsage, "retry", "out", "--class", "bad_reqest")
	f.do(exitRunsFailed, "retry", "out", "--class", "timeout", "--config", "fleet.yaml") // none is of it
	if n := f.stats().All.Arrived; n != 0 {
		t.Errorf("%d calls for runs of another class", n)
	}
	f.do(exitOK, "retry", "out", "--class", "bad_request", "--config", "fleet.yaml")
	f.wantRowsOnce()

	f.onFleet(exitOK, "enqueue", f.file, "--config", "fleet.yaml", "--again", "fleet")
	worker := launch(t, f.dir, "worker", "--redis", f.redis.URL(), "--config", "broken.yaml")
	eventually(t, "every run fails", func() string { return f.hasStatus(record.StatusDone) })
	worker.signal(syscall.SIGTERM)
	worker.wait(time.Minute)
	id := string(f.standing().Evaluation)
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
func (f *fleet) inFolder(dir string) standing {
	f.t.Helper()
	var list []standing
	if err := json.Unmarshal([]byte(f.do(exitOK, "status", "--json", dir).stdout.String()), &list); err != nil || len(list) != 1 {
		f.t.Fatalf("status --json %s: %d evaluations, %v; want 1", dir, len(list), err)
	}
	return list[0]
}

func (f *fleet) hasStatus(want record.Status) string {
	if got := f.standing().Status; got != want {
		return ""
	}
	return string(want)
}

// TestFleetsEvaluationIsSteered: pause, resume, cancel and delete by id, while
// workers run.
func TestFleetsEvaluationIsSteered(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 12) // 264 runs
	f.startWorkers(2)
	f.onFleet(exitOK, "enqueue", f.file, "--config", "fleet.yaml")
	id := string(f.standing().Evaluation)
	f.until("calls were made", time.Minute, func(s seen) bool { return s.All.Arrived > 20 })
	f.onFleet(exitOK, "pause", id)
	f.wantQuiet()
	f.onFleet(exitOK, "resume", id)
	f.until("it goes on", time.Minute, func(s seen) bool { return s.All.Arrived > 80 })
	for range 2 {
		f.onFleet(exitOK, "cancel", id)
	}
	f.wantQuiet()
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
	var limits limitsView
	if err := json.Unmarshal([]byte(f.onFleet(exitOK, "limits", id, "--json", "--out-dir", "out").stdout.String()), &limits); err != nil ||
		!limits.Ended || string(limits.Evaluation) != id || len(limits.Limits) == 0 {
		t.Errorf("limits of what was cancelled: %+v, %v; want those that were in force", limits, err)
	}
	f.onFleet(exitOK, "delete", id)
	f.onFleet(exitUsage, "delete", id)
	client := f.redis.Client()
	if keys := client.Keys(t.Context(), "ef:{*").Val(); len(keys) != 0 {
		t.Errorf("keys are left: %v", keys)
	}
	eventually(t, "its limits are unpinned", func() string {
		if slices.Contains(client.HKeys(t.Context(), "{ef}:limits").Val(), id) {
			return ""
		}
		return "they are"
	})
	f.wantNeverOver(f.stats())
}
