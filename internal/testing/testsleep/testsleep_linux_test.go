package testsleep

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// clocks makes the test binary print its clocks for every line that it reads.
const clocks = "TESTSLEEP_CLOCKS"

func TestMain(m *testing.M) {
	if os.Getenv(clocks) == "" {
		os.Exit(m.Run())
	}
	began := time.Now()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var boot unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot)
		fmt.Println(int64(time.Since(began)), boot.Nano(), time.Now().UnixNano())
	}
}

// TestSuspend: for a process that was suspended twice, Go's clock stood still meanwhile, and
// the others went on.
func TestSuspend(t *testing.T) {
	t.Parallel()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), clocks+"=1")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	lines := bufio.NewReader(out)
	read := func() (mono, boot, wall time.Duration) {
		t.Helper()
		if _, err := fmt.Fprintln(in); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fscan(lines, &mono, &boot, &wall); err != nil {
			t.Fatal(err)
		}
		return mono, boot, wall
	}

	for range 2 {
		began := time.Now()
		mono, boot, wall := read()
		wake, err := Suspend(child.Process.Pid)
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		slept := time.Now()
		time.Sleep(300 * time.Millisecond)
		rest := time.Since(slept)
		if err := wake(); err != nil {
			t.Fatal(err)
		}
		mono2, boot2, wall2 := read()
		all := time.Since(began)
		if mono2 < mono || mono2-mono > all-rest {
			t.Errorf("monotonic clock went on by %s in %s, %s of it suspended", mono2-mono, all, rest)
		}
		if boot2-boot < rest || wall2-wall < rest {
			t.Errorf("boot clock went on by %s and wall clock by %s in a sleep of %s", boot2-boot, wall2-wall, rest)
		}
	}
}
