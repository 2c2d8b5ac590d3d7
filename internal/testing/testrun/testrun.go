// Package testrun contains helpers for the tests of every package. They mark slow tests, wait for events, and find a
// free address to listen on.
//
// Tests wait for an event, never for a length of time, because any step can be slow on a busy machine. The only bound
// is the deadline of the whole test binary (go test -timeout). A test that hangs therefore still reports the event
// that it was waiting for.
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

// margin is the time left before the deadline of the test binary. In it, a test can report its failure and stop the
// servers that it started.
const margin = 30 * time.Second

// fallback is the maximum wait if go test runs without a timeout (-timeout 0).
const fallback = 10 * time.Minute

// Slow marks a test that kills, freezes or interrupts processes, or that runs at full size. `make test` (go test
// -short) skips it, and `make check` runs it.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow: make check runs it")
	}
}

// Parallel lets n parallel tests run at once, unless go test -parallel is set. The default is one for each core,
// which leaves the cores idle while tests wait for servers. Call it first in TestMain.
func Parallel(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}

// Deadline returns the time by which every wait of the test must have ended: a little before the deadline of the test
// binary. If the timeout is short, the margin is smaller.
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

// Eventually calls reached until it returns true. At Deadline it ends the test with a failure that names what. Call
// it from the test's own goroutine.
func Eventually(t testing.TB, what string, reached func() bool) {
	t.Helper()
	EventuallyGot(t, what, func() (string, bool) { return "", reached() })
}

// EventuallyGot waits as Eventually does, for a condition that also returns the last value seen, which the failure
// prints.
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

// handedOut is the first port that Linux assigns to programs on its own; other systems have a larger one.
const handedOut = 32768

// FreeAddress returns a host and port of this machine that nothing listens on. Systems do not assign ports of this
// range on their own. No other program will therefore listen on it by chance, before the test does or while the test
// needs it to refuse connections.
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
