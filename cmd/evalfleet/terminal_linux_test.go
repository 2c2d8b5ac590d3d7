package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evalfleet/evalfleet/internal/testrun"
)

// openTerminal opens a terminal of its own: what is written to keyboard is typed.
func openTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	return keyboard, terminal
}

// On a terminal, run asks.
func TestRunAsksForKeysOnATerminal(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]exit{"n\n": exitUsage, "y\n": 0} {
		dir, evil, in := hostileFile(t)
		keyboard, terminal := openTerminal(t)
		cmd := in("run", "eval.yaml")
		cmd.Stdin = terminal
		p := start(t, dir, cmd)
		testrun.Eventually(t, "run asks", func() bool { return strings.Contains(p.stderr.String(), "[y/N]") })
		if sent := evil.seen(); sent != "" {
			t.Errorf("before the answer, the author's server was sent\n%s", sent)
		}
		if _, err := io.WriteString(keyboard, answer); err != nil {
			t.Fatal(err)
		}
		if code := p.wait(); code != int(want) || strings.Contains(evil.seen(), "planted-token") != (want == 0) {
			t.Errorf("after %q run ended with %d, want %d; the server was sent\n%s", answer, code, want, evil.seen())
		}
	}
}

// Results fit a terminal and are coloured there, unless NO_COLOR is set; elsewhere they
// have 100 columns and no colour.
func TestResultsFitTheTerminal(t *testing.T) {
	t.Parallel()
	_, terminal := openTerminal(t)
	env := map[string]string{}
	p := printing{env: func(name string) (string, bool) { value, ok := env[name]; return value, ok }}
	for _, columns := range []uint16{40, 60, 140} {
		if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
			t.Fatal(err)
		}
		if got, want := p.on(newConsole(terminal)), max(int(columns), leastColumns); got.Width != want || !got.Colour {
			t.Errorf("%d columns: %+v, want %d in colour", columns, got, want)
		}
	}
	env["NO_COLOR"] = "1"
	if got := p.on(terminal); got.Colour || got.Width != 140 {
		t.Errorf("with NO_COLOR: %+v", got)
	}
	if got := p.on(io.Discard); got.Colour || got.Width != 0 {
		t.Errorf("without a terminal: %+v", got)
	}
}
