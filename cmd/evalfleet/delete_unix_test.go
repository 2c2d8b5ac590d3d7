//go:build unix

package main

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/evalfleet/evalfleet/enqueue/store"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/internal/view"
)

// TestDeleteAsks: uncollected results are deleted only after confirmation, on a terminal or
// with --force.
func TestDeleteAsks(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, calm) // 24 runs
	f.startWorkers(1)
	f.onFleet(exitOK, "enqueue", f.file, "--config", "fleet.yaml")
	id := string(f.standing().ID)
	f.until("there are results", func(s seen) bool { return s.All.Arrived == f.runs && s.All.InFlight == 0 })
	f.untilStanding("every result waits to be collected", func(s view.Evaluation) bool { return s.Uncollected == int64(f.runs) })
	kept := func() bool {
		t.Helper()
		ids, err := store.New(f.redis.Client(), "").Evaluations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.Contains(ids, eval.ID(id))
	}

	if p := f.onFleet(exitUsage, "delete", id); !strings.HasSuffix(lastLine(p.stderr.String()), "would be lost: `evalfleet collect "+id+"` first, or --force") || !kept() {
		t.Errorf("without a terminal: %q, and it is kept: %t", p.stderr.String(), kept())
	}
	for _, c := range []struct {
		name, typed string
		code        exit
		last        string
	}{
		{"no", "n\n", exitUsage, "evalfleet: nothing was deleted"},
		{"nothing", "\n", exitUsage, "evalfleet: nothing was deleted"},
		{"something else", "yesterday\n", exitUsage, "evalfleet: nothing was deleted"},
		{"end of file", "\x04", exitUsage, "evalfleet: nothing was deleted"},
		{"Ctrl-C", "\x03", exitInterrupted, "evalfleet: interrupted: nothing was deleted"},
		{"yes", "Yes\n", exitOK, id + " is deleted"},
	} {
		asked, said, code := f.onTerminal(c.typed, "delete", id)
		if want := "24 results of " + id + " have not been collected and would be lost. Delete anyway? [y/N] "; asked != want {
			t.Errorf("%s: asked %q, want %q", c.name, asked, want)
		}
		if code != c.code || lastLine(said) != c.last || kept() != (c.code != exitOK) {
			t.Errorf("%s: exit code %d, %q, and it is kept: %t; want %d and %q", c.name, code, said, kept(), c.code, c.last)
		}
	}

	f.onFleet(exitOK, "enqueue", f.file, "--config", "fleet.yaml")
	f.untilStanding("there are results again", func(s view.Evaluation) bool { return s.Uncollected > 0 })
	f.onFleet(exitOK, "delete", id, "--force")
	if kept() {
		t.Error("--force has not deleted it")
	}
	f.onFleet(exitUsage, "delete", id, "--force")
}

// onTerminal runs a command of the fleet on a terminal, and wants it to ask something.
func (f *testFleet) onTerminal(typed string, args ...string) (asked, said string, code exit) {
	f.t.Helper()
	asked, said, code = f.typing(typed, append(args, "--redis", f.redis.URL())...)
	if asked == "" {
		f.t.Fatalf("%v asked nothing and ended with %d: %q", args, code, said)
	}
	return asked, said, code
}

// typing runs a command on a terminal of its own and types once it is asked something. said is the output after the
// question, with the terminal's line ends converted to plain ones. asked is empty if there was no question.
func (f *testFleet) typing(typed string, args ...string) (asked, said string, code exit) {
	f.t.Helper()
	path, err := binary()
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.CommandContext(f.t.Context(), path, args...)
	cmd.Dir = f.dir
	terminal, err := pty.Start(cmd)
	if err != nil {
		f.t.Fatal(err)
	}
	defer terminal.Close()
	stuck := context.AfterFunc(testrun.Context(f.t), func() { _ = cmd.Process.Kill() })
	defer stuck()
	var text strings.Builder
	question := 0
	buffer := make([]byte, 1024)
	for {
		n, err := terminal.Read(buffer)
		text.Write(buffer[:n])
		if question == 0 && strings.HasSuffix(text.String(), "[y/N] ") {
			question = text.Len()
			if _, err := terminal.WriteString(typed); err != nil {
				f.t.Fatal(err)
			}
		}
		if err != nil { // the other end was closed
			break
		}
	}
	_ = cmd.Wait() // the exit code says more
	before, after := text.String()[:question], text.String()[question:]
	return strings.ReplaceAll(before, "\r\n", "\n"), strings.ReplaceAll(after, "\r\n", "\n"), exit(cmd.ProcessState.ExitCode())
}

// On a terminal, cancel asks first. The runs that it gives up are no progress.
func TestCancelAsks(t *testing.T) {
	t.Parallel()
	f := newFleetLimited(t, 1, calm)
	f.documents(2)
	f.file = f.evaluation("pairs", "simulator:careful", 1, 1)
	f.onFleet(exitOK, "enqueue", f.file, "--config", "fleet.yaml")
	id := string(f.standing().ID)
	for _, c := range []struct {
		typed string
		code  exit
		last  string
	}{
		{"n\n", exitUsage, "evalfleet: nothing was cancelled"},
		{"\x03", exitInterrupted, "evalfleet: interrupted: nothing was cancelled"},
		{"y\n", exitOK, id + " is cancelled"},
	} {
		asked, said, code := f.onTerminal(c.typed, "cancel", id)
		if want := "Cancel " + id + "? Its unfinished runs are cancelled; this cannot be undone. [y/N] "; asked != want || code != c.code || lastLine(said) != c.last {
			t.Errorf("asked %q, exit code %d, %q; want %q, %d and %q", asked, code, said, want, c.code, c.last)
		}
	}
	status := strings.Join(strings.Fields(f.onFleet(exitOK, "status", id).stdout.String()), " ")
	if !strings.Contains(status, "pairwise 0/2 0 % 2 runs cancelled") {
		t.Errorf("status says %s", status)
	}
}

// Nothing is asked, and nothing reported once more, where no run failed.
func TestRetryOfNothing(t *testing.T) {
	t.Parallel()
	f := newFleetLimited(t, 1, calm)
	f.documents(2)
	f.file = f.evaluation("pairs", "simulator:careful", 1, 1)
	run := launch(t, f.dir, "run", f.file, "--limit", "1", "--config", "fleet.yaml", "--out-dir", "out")
	if code := run.wait(); code != 0 || !strings.Contains(run.stderr.String(), ": 1 run, results in out") {
		t.Fatalf("run ended with %d", code)
	}
	for want, args := range map[string][]string{
		"no run failed: nothing to retry":              {"retry", "out"},
		"no run failed with timeout: nothing to retry": {"retry", "out", "--class", "timeout"},
	} {
		p := launch(t, f.dir, append(args, "--config", "fleet.yaml")...)
		if code := p.wait(); code != 0 || lastLine(p.stderr.String()) != want || p.stdout.String() != "" {
			t.Errorf("%v ended with %d, want 0 and %q", args, code, want)
		}
	}
	if got := f.stats().All.Arrived; got != 1 {
		t.Errorf("%d calls arrived, want 1", got)
	}
}
