package upload_test

import (
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
	os.Exit(m.Run())
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
