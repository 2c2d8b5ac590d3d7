package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary builds the program once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "evalfleet-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "evalfleet")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// TestMain lets twice as many tests run at once as is usual: nearly all wait for
// simulated providers and for leases to end. Those that measure what a fleet makes of
// its limits are not parallel, and have the machine to themselves.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// program is a running evalfleet.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout lockedBuffer
	stderr lockedBuffer
	ended  chan struct{}
}

// lockedBuffer is written by a program while a test reads it.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// launch starts evalfleet in dir; it is killed when the test ends.
func launch(t *testing.T, dir string, args ...string) *program {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return start(t, dir, exec.Command(path, args...))
}

// start starts a command that is evalfleet, or becomes it, in dir; it is killed
// when the test ends.
func start(t *testing.T, dir string, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{t: t, cmd: cmd, ended: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.Env = append(os.Environ(), "EVALFLEET_LOG_LEVEL=warn", "EVALFLEET_METRICS_ADDR=off")
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%s\nstdout:\n%s\nstderr:\n%s", strings.Join(cmd.Args, " "), tail(p.stdout.String()), tail(p.stderr.String()))
		}
	})
	return p
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

func (p *program) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// wait returns the exit code.
func (p *program) wait(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		p.t.Fatalf("evalfleet %v has not ended after %s", p.cmd.Args[1:], limit)
		return -1
	}
}
