// Package testrun contains helpers for the tests of every package: the two levels of the suite,
// how a test waits, and a free address to listen on.
//
// A test waits for an event and never for a length of time, because a busy machine can make any
// step slow. The only bound is the deadline of the whole test binary (go test -timeout), so
// that a test that hangs still reports the event it was waiting for.
package testrun

import (
	"context"
	"flag"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
	"time"
)

// margin is left before the test binary's own deadline, so that a test can
// report its failure and stop the servers that it started.
const margin = 30 * time.Second

// fallback bounds a wait where go test runs without a timeout (-timeout 0).
const fallback = 10 * time.Minute

// Slow marks a test that proves a promise by killing, freezing or interrupting
// processes, or that runs at full size. `make test` (go test -short) skips it
// and `make check` runs it.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow: make check runs it")
	}
}

// Parallel lets n parallel tests run at once unless go test -parallel says
// otherwise; its default, one for each core, leaves the cores idle where tests
// wait for servers. Call it first in TestMain.
func Parallel(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}

// Deadline returns the time by which every wait of the test must have ended:
// a little before the test binary's own deadline. The margin shrinks where the
// timeout itself is short.
func Deadline(t testing.TB) time.Time {
	t.Helper()
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, bounded := d.Deadline(); bounded {
			return end.Add(-min(margin, time.Until(end)/4))
		}
	}
	return time.Now().Add(fallback)
}

// Context returns a context that ends at Deadline, or when the test ends.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithDeadline(t.Context(), Deadline(t))
	t.Cleanup(cancel)
	return ctx
}

// Eventually calls reached until it returns true, and fails the test at once
// with what at Deadline. It must be called from the test's own goroutine.
func Eventually(t testing.TB, what string, reached func() bool) {
	t.Helper()
	EventuallyGot(t, what, func() (string, bool) { return "", reached() })
}

// EventuallyGot is Eventually for a condition that also returns the last value seen; the
// failure prints it.
func EventuallyGot(t testing.TB, what string, look func() (got string, reached bool)) {
	t.Helper()
	deadline, begun := Deadline(t), time.Now()
	pause := time.Millisecond
	for {
		got, reached := look()
		if reached {
			return
		}
		if !time.Now().Before(deadline) {
			t.Fatalf("waited %v for: %s\nlast seen: %s", time.Since(begun).Round(time.Second), what, got)
		}
		time.Sleep(pause)
		pause = min(2*pause, 50*time.Millisecond)
	}
}

// handedOut is the first port that a system chooses for a program by itself: on Linux, and on
// others a greater one.
const handedOut = 32768

// FreeAddress returns a host and port of this machine that nothing listens on. The port is not
// one that systems hand out by themselves, so no other program comes to listen on it by chance
// before the test's own does, or while the test wants it to refuse connections.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		address := "127.0.0.1:" + strconv.Itoa(10_000+rand.IntN(handedOut-10_000))
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		return address
	}
	t.Fatalf("found no free port from 10000 to %d", handedOut-1)
	return ""
}
