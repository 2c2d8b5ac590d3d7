package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// failedLogs is the folder for the output of programs.
var failedLogs = flag.String("failed-logs", "", "write all that the programs of failed tests have printed into this folder")

// programName is the base name under which the tests run the program.
const programName = "evalfleet"

// binary returns the path of the program that all tests share. `go test -short`
// links nothing twice: the test binary runs as the program when it is started
// under the program's name. Otherwise the program is what `go build` makes,
// without the race detector.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "evalfleet-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, programName)
	if testing.Short() {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		return path, os.Symlink(self, path)
	}
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// stateFolder is the folder of the user's state in all tests.
var stateFolder = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "evalfleet-state-")
	if err != nil {
		panic(err)
	}
	return dir
})

// TestMain lets four times as many tests run at once as there are processors,
// because nearly all of them wait for simulated providers and for leases to end.
// It drops go-redis's own log lines, as the program does.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == programName {
		main()
	}
	redis.SetLogger(noLog{})
	if signal.Ignored(syscall.SIGHUP) { // as under nohup; programs would inherit it, and outlive their terminal
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	_ = os.RemoveAll(stateFolder())
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// noLog drops what go-redis logs about failed connections.
type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

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
	return launchWith(t, dir, nil, args...)
}

// launchWith is launch with more in the environment.
func launchWith(t *testing.T, dir string, env []string, args ...string) *program {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = env
	return start(t, dir, cmd)
}

// start starts a command that is evalfleet, or becomes it, in dir, with cmd.Env added
// to the environment; it is killed when the test ends.
func start(t *testing.T, dir string, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{t: t, cmd: cmd, ended: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.Env = slices.Concat(os.Environ(), []string{"EVALFLEET_LOG_LEVEL=warn", "EVALFLEET_METRICS_ADDR=off", "XDG_STATE_HOME=" + stateFolder()}, cmd.Env)
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
			p.keepLog()
			t.Logf("%s\nstdout:\n%s\nstderr:\n%s", strings.Join(cmd.Args, " "), tail(p.stdout.String()), tail(p.stderr.String()))
		}
	})
	return p
}

// keepLog writes what a program of a failed test has printed on standard error to failedLogs.
func (p *program) keepLog() {
	if *failedLogs == "" {
		return
	}
	name := fmt.Sprintf("%s-%d.log", strings.ReplaceAll(p.t.Name(), "/", "-"), p.cmd.Process.Pid)
	text := strings.Join(p.cmd.Args, " ") + "\n" + p.stderr.String()
	if err := os.WriteFile(filepath.Join(*failedLogs, name), []byte(text), 0o600); err != nil {
		p.t.Log(err)
	}
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

func (p *program) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// wait waits for the program to end and returns its exit code.
func (p *program) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-testrun.Context(p.t).Done():
		p.t.Fatalf("evalfleet %v has not ended", p.cmd.Args[1:])
		return -1
	}
}

// outlast waits until a span of time has passed that is a test's subject, such as
// a lease.
func outlast(t *testing.T, span time.Duration) {
	t.Helper()
	begun := time.Now()
	testrun.Eventually(t, span.String()+" have passed", func() bool { return time.Since(begun) >= span })
}

// line waits for the first whole line on the program's stdout.
func (p *program) line() string {
	p.t.Helper()
	var line string
	testrun.EventuallyGot(p.t, strings.Join(p.cmd.Args[1:], " ")+" prints a line", func() (string, bool) {
		select {
		case <-p.ended:
			p.t.Fatalf("evalfleet %v ended with %d before it printed a line", p.cmd.Args[1:], p.cmd.ProcessState.ExitCode())
		default:
		}
		var whole bool
		line, _, whole = strings.Cut(p.stdout.String(), "\n")
		return "stdout " + line + ", stderr " + tail(p.stderr.String()), whole
	})
	return strings.TrimSpace(line)
}
