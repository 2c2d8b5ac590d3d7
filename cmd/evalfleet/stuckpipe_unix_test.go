//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// stuckPipe starts evalfleet on the fleet's Redis as muted does.
func (f *testFleet) stuckPipe(args ...string) (p *program, read *os.File) {
	f.t.Helper()
	return f.muted(append(args, "--redis", f.redis.URL())...)
}

// muted starts evalfleet with standard error in a pipe that is not read and is full.
func (f *testFleet) muted(args ...string) (p *program, read *os.File) {
	f.t.Helper()
	path, err := binary()
	if err != nil {
		f.t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = read.Close() })
	shell := append([]string{"-c", `exec "$0" "$@" 2>&3 3>&-`, path}, args...)
	cmd := exec.Command("sh", shell...)
	cmd.Env = []string{"EVALFLEET_LOG_LEVEL=debug"}
	cmd.ExtraFiles = []*os.File{write}
	end := int(write.Fd())
	if err := syscall.SetNonblock(end, true); err != nil {
		f.t.Fatal(err)
	}
	for full := false; !full; { // to the last byte
		_, err := syscall.Write(end, make([]byte, 1))
		full = err != nil
	}
	if err := syscall.SetNonblock(end, false); err != nil {
		f.t.Fatal(err)
	}
	p = start(f.t, f.dir, cmd)
	_ = write.Close()
	return p, read
}

// A worker and a collecting command whose standard error is a full pipe that is not read work as
// any other, end when they are told to, and say how much of their log is missing when it is read.
func TestStuckStandardErrorDelaysNothing(t *testing.T) {
	t.Parallel()
	f := newFleetWith(t, "--latency", "10ms")
	f.configure(f.provider, calm)
	f.compare(24) // 1,104 runs: more of a log than is kept
	worker, log := f.stuckPipe("worker", "--config", "fleet.yaml")
	collector, _ := f.stuckPipe("enqueue", f.file, "--wait", "--out-dir", "out", "--config", "fleet.yaml")
	if code := collector.wait(); code != 0 {
		t.Fatalf("enqueue --wait ended with %d", code)
	}
	f.wantRowsOnce()
	if s := f.stats(); s.All.Answered != f.runs {
		t.Errorf("%d calls answered for %d runs", s.All.Answered, f.runs)
	}

	idle, _ := f.stuckPipe("worker", "--config", "fleet.yaml")
	client := f.redis.Client()
	testrun.Eventually(t, "a second worker is there", func() bool {
		return client.ZCard(t.Context(), "{ef}:alive").Val() == 2
	})
	idle.signal(syscall.SIGTERM)
	if code := idle.wait(); code != 0 {
		t.Errorf("a worker whose log is not read ended with %d after SIGTERM", code)
	}

	said := &lockedBuffer{}
	go func() { _, _ = io.Copy(said, log) }()
	testrun.EventuallyGot(t, "the log says that lines are missing", func() (string, bool) {
		text := said.String()
		return tail(text), strings.Contains(text, "of this log were dropped because standard error was not read")
	})
	worker.signal(syscall.SIGTERM)
	if code := worker.wait(); code != 0 {
		t.Errorf("the worker ended with %d after SIGTERM", code)
	}
}

// The end of the grace period and a second signal end a process that cannot write to standard
// error.
func TestSignalsEndAProcessWithStuckStandardError(t *testing.T) {
	t.Parallel()
	f := newFleetWith(t, "--hang-rate", "1")
	f.configure(f.provider, calm)
	f.compare(2)
	short, _ := f.stuckPipe("worker", "--config", "fleet.yaml", "--grace", "1ms")
	f.enqueueAndWait()
	f.until("a call is in flight", func(s seen) bool { return s.All.InFlight > 0 })
	short.signal(syscall.SIGTERM)
	if code := short.wait(); code != 0 {
		t.Errorf("after its grace period the worker ended with %d, want 0", code)
	}
	long, _ := f.stuckPipe("worker", "--config", "fleet.yaml", "--grace", "10m")
	before := f.stats().All.Arrived
	f.until("another call is in flight", func(s seen) bool { return s.All.Arrived > before })
	long.signal(syscall.SIGINT)
	outlast(t, lastWords)
	long.signal(syscall.SIGTERM)
	if code := long.wait(); code != int(exitInterrupted) {
		t.Errorf("after the second signal the worker ended with %d, want %d", code, exitInterrupted)
	}
}

// A program that reads the output of a worker or controller and ends takes neither with it.
func TestReaderOfALogThatEnds(t *testing.T) {
	t.Parallel()
	f := newFleetWith(t, "--latency", "10ms")
	f.configure(f.provider, calm)
	f.compare(6)
	worker, log := f.stuckPipe("worker", "--config", "fleet.yaml")
	controller, more := f.stuckPipe("controller", "--listen", "127.0.0.1:0")
	_, _ = log.Close(), more.Close()
	collector := f.enqueueAndWait()
	select {
	case <-collector.ended:
	case <-worker.ended:
		t.Fatalf("the worker ended with its reader: %v", worker.cmd.ProcessState)
	}
	if code := collector.wait(); code != 0 {
		t.Fatalf("enqueue --wait ended with %d", code)
	}
	if s := f.stats(); s.All.Answered != f.runs {
		t.Errorf("%d calls answered for %d runs", s.All.Answered, f.runs)
	}
	for name, p := range map[string]*program{"worker": worker, "controller": controller} {
		select {
		case <-p.ended:
			t.Errorf("the %s ended with its reader: %v", name, p.cmd.ProcessState)
		default:
			p.signal(syscall.SIGTERM)
			if code := p.wait(); code != 0 {
				t.Errorf("the %s ended with %d after SIGTERM", name, code)
			}
		}
	}
}

// A command that only prints ends with the program that reads its output.
func TestPrintingEndsWithItsReader(t *testing.T) {
	t.Parallel()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := start(t, dir, exec.Command("bash", "-c", `
		(
			while ! test -e closed; do sleep 0.05; done
			"$0" completion bash; echo "$?" > ended
		) | { exec <&-; : > closed; }
		while ! test -s ended; do sleep 0.05; done
		exit "$(cat ended)"`, path))
	if code := p.wait(); code != 128+int(syscall.SIGPIPE) {
		t.Errorf("completion whose reader has ended: exit code %d, want that of SIGPIPE", code)
	}
}
