package redistest

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

//go:embed shim/clock.c
var clockSource []byte

// CanSetClock reports whether NewClocked works: it needs Linux and a C compiler.
func CanSetClock() bool {
	_, err := exec.LookPath("cc")
	return runtime.GOOS == "linux" && err == nil
}

// NewClocked starts a server as NewTCP does, whose wall clock SetClock sets. Several servers can share one clock, as
// servers on one machine do. clock is another server that NewClocked started and whose clock to share, or nil.
func NewClocked(t testing.TB, clock *Server, args ...string) *Server {
	t.Helper()
	s := prepare(t, freePort(t), args)
	if clock != nil {
		s.clock, s.env = clock.clock, clock.env
		s.begin()
		return s
	}
	source, library := filepath.Join(s.dir, "clock.c"), filepath.Join(s.dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(
		t.Context(), "cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl",
	).CombinedOutput(); err != nil {
		t.Fatalf("compile the clock of redis-server: %v: %s", err, out)
	}
	s.clock = filepath.Join(s.dir, "clock")
	s.env = []string{"LD_PRELOAD=" + library, "EVALFLEET_TEST_CLOCK=" + s.clock}
	s.SetClock(0)
	s.begin()
	return s
}

// SetClock sets the wall clock of a server of NewClocked, and of those that share it. ahead is the difference to the
// machine's clock; a negative one sets it behind.
func (s *Server) SetClock(ahead time.Duration) {
	s.t.Helper()
	if s.clock == "" {
		s.t.Fatal("redistest: this server has the clock of the machine; use NewClocked")
	}
	file, err := os.OpenFile(s.clock, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead.Microseconds())), 0); err != nil {
		s.t.Fatal(err)
	}
}
