package upload_test

import (
	"flag"
	"fmt"
	"os"
	"syscall"
	"testing"
)

// TestMain gives the tests few descriptors, as a hardened machine does.
func TestMain(m *testing.M) {
	const few = 1000
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: few, Max: few}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	tellPeak()
	os.Exit(code)
}

// tellPeak prints the most memory that a process of a fuzz test has had, the fuzz engine's included.
func tellPeak() {
	var workers, engine syscall.Rusage
	if flag.Lookup("test.fuzz").Value.String() == "" || flag.Lookup("test.fuzzworker").Value.String() == "true" ||
		syscall.Getrusage(syscall.RUSAGE_CHILDREN, &workers) != nil || syscall.Getrusage(syscall.RUSAGE_SELF, &engine) != nil {
		return
	}
	fmt.Printf("most memory: %d MiB in a worker, %d MiB in its coordinator\n", workers.Maxrss>>10, engine.Maxrss>>10)
}

// descriptors counts those that are open.
func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}
