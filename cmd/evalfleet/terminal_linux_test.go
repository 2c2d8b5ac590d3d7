package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/evalfleet/evalfleet/internal/cli/terminal"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
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
	_, screen := openTerminal(t)
	env := map[string]string{}
	p := printing{env: func(name string) (string, bool) { value, ok := env[name]; return value, ok }}
	for _, columns := range []uint16{40, 60, 140} {
		if err := unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
			t.Fatal(err)
		}
		if got, want := p.on(terminal.New(screen)), max(int(columns), leastColumns); got.Width != want || !got.Colour {
			t.Errorf("%d columns: %+v, want %d in colour", columns, got, want)
		}
	}
	env["NO_COLOR"] = "1"
	if got := p.on(screen); got.Colour || got.Width != 140 {
		t.Errorf("with NO_COLOR: %+v", got)
	}
	if got := p.on(io.Discard); got.Colour || got.Width != 0 {
		t.Errorf("without a terminal: %+v", got)
	}
}

// ownSequences are those that evalfleet itself writes to a terminal.
var ownSequences = regexp.MustCompile("\x1b\\[(0|1|2|3[1-6]|90|K)?m?|\r")

// Whatever a provider answers and an evaluation file contains, a terminal gets no
// sequence but evalfleet's own: not from logs, progress, errors, cards and tables.
func TestNothingForeignReachesTheTerminal(t *testing.T) {
	t.Parallel()
	quoted := string(must(json.Marshal(foreign)))
	var status atomic.Int64
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Load()))
		fmt.Fprintf(w, `{"error":{"message":%s,"code":%s},"model":%s,"choices":[{"message":{"content":%s},"finish_reason":"stop"}]}`, quoted, quoted, quoted, quoted)
	}))
	t.Cleanup(provider.Close)
	file := "name: evil\nproviders: {mine: {base_url: \"" + provider.URL + "/v1\", json: none}}\n" +
		"grounding: off\nreasoning: off\nretry: {max_attempts: 1}\n"
	dir := tree(t, runFiles(
		"eval.yaml", file+"documents: [docs/*.md]\njudges: [mine:m]\nsingle: {criteria: [style]}\n",
		"bad.yaml", file+strconv.QuoteToASCII(foreign)+": 1\n"+strconv.QuoteToASCII("judge"+foreign)+": 2\n",
		"docs/x.md", foreign, "docs/y.md", foreign+"!"))
	say := func(args ...string) string {
		keyboard, terminal := openTerminal(t)
		cmd := exec.Command(must(binary()), args...)
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, terminal, terminal, terminal
		cmd.Env = append(os.Environ(), "EVALFLEET_METRICS_ADDR=off", "XDG_STATE_HOME="+stateFolder(), "TERM=xterm")
		var out bytes.Buffer
		read := make(chan struct{})
		go func() {
			_, _ = io.Copy(&out, keyboard) // ends with an error, once the terminal is closed
			close(read)
		}()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = terminal.Close()
		_ = cmd.Wait() // most fail, as they should
		<-read
		return out.String()
	}
	check := func(what, text string) {
		t.Helper()
		if text == "" {
			t.Errorf("%s: nothing was printed", what)
		}
		for _, r := range ownSequences.ReplaceAllString(text, "") {
			if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
				t.Errorf("%s: the terminal gets %U in\n%q", what, r, text)
				return
			}
		}
	}
	for _, c := range []struct {
		status int
		args   []string
	}{
		{200, []string{"run", "bad.yaml"}},
		{200, []string{"validate", "eval.yaml"}},
		{401, []string{"run", "eval.yaml", "--out-dir", "refused", "--log-level", "debug"}},
		{400, []string{"run", "eval.yaml", "--out-dir", "failed", "--log-level", "debug", "--details"}},
		{500, []string{"run", "eval.yaml", "--out-dir", "machines", "--log-level", "debug", "--log-format", "json"}},
		{200, []string{"run", "eval.yaml", "--out-dir", "answered"}},
		{200, []string{"run", "eval.yaml", "--dry-run"}},
		{200, []string{"report", "answered", "--details"}},
		{200, []string{"report", "failed", "--details"}},
		{200, []string{"status", "failed"}},
		{200, []string{"status", "failed", "--json"}},
		{200, []string{"show", "0.0", "answered"}},
		{200, []string{"show", "0.0", "failed", "--json"}},
		{200, []string{"show", "0.0", foreign}},
		{200, []string{foreign}},
		{200, []string{"status", "--redis", "redis://127.0.0.1:1/" + foreign}},
	} {
		status.Store(int64(c.status))
		text := say(c.args...)
		check(strings.Join(c.args, " "), text)
		if !strings.Contains(text, "evil") {
			t.Errorf("%v: got %q, which shows nothing of what is tested", c.args, text)
		}
	}
}
