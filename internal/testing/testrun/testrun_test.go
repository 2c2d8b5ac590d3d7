package testrun

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// recorder replaces a test that is about to reach its deadline.
type recorder struct {
	testing.TB
	end    time.Time
	failed string
}

func (r *recorder) Helper()                     {}
func (r *recorder) Deadline() (time.Time, bool) { return r.end, true }
func (r *recorder) Fatalf(format string, args ...any) {
	var b strings.Builder
	for _, a := range args {
		if s, ok := a.(string); ok {
			b.WriteString(s + "|")
		}
	}
	r.failed = b.String()
	panic(r)
}

func TestEventuallySaysWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t, end: time.Now().Add(40 * time.Millisecond)}
		looks := 0
		func() {
			defer func() { _ = recover() }()
			EventuallyGot(r, "three workers", func() (string, bool) { looks++; return "two workers", false })
		}()
		if r.failed != "three workers|two workers|" || looks < 2 {
			t.Errorf("got failure %q after %d looks; want what was awaited and last seen, after several", r.failed, looks)
		}
	})
}

func TestEventuallyEndsWithTheEvent(t *testing.T) {
	t.Parallel()
	looks := 0
	Eventually(t, "the third look", func() bool { looks++; return looks == 3 })
	if looks != 3 {
		t.Errorf("got %d looks, want 3", looks)
	}
}

func TestDeadlineLeavesRoomToReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, left := range []time.Duration{time.Second, time.Minute, time.Hour} {
			end := time.Now().Add(left)
			got := Deadline(&recorder{TB: t, end: end})
			if !got.Before(end) || !got.After(time.Now()) {
				t.Errorf("with %v left: deadline %v from now; want one before the end and not yet passed", left, time.Until(got))
			}
		}
	})
}

// A free address refuses connections, and is none that another program gets by chance.
func TestFreeAddress(t *testing.T) {
	t.Parallel()
	for range 20 {
		address := FreeAddress(t)
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := strconv.Atoi(port); err != nil || n >= handedOut {
			t.Errorf("port %s, %v; want one below %d", port, err, handedOut)
		}
		if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address); err == nil {
			_ = conn.Close()
			t.Errorf("%s accepts a connection", address)
		}
	}
}
