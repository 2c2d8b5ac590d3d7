package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// terminalWidths are those that every command's output fits.
var terminalWidths = []int{60, 80, 100, 140}

// screenOf is a terminal of so many columns, and what a function wrote to it.
func screenOf(t *testing.T, columns int, write func(terminal *os.File)) string {
	t.Helper()
	keyboard, terminal := openTerminal(t)
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	read := make(chan struct{})
	go func() {
		_, _ = io.Copy(&out, keyboard) // ends with an error, once the terminal is closed
		close(read)
	}()
	write(terminal)
	_ = terminal.Close()
	<-read
	return out.String()
}

// brokenNumber is a number that ends a line and goes on, or its unit, on the next.
var brokenNumber = regexp.MustCompile(`(?m)\d[,.]?\r?\n\s*(%|[,.]\d)`)

// fitsTerminal checks what a terminal of so many columns shows: no line is wider, and none ends
// within a number.
func fitsTerminal(t *testing.T, what, text string, columns int) {
	t.Helper()
	if strings.TrimSpace(text) == "" {
		t.Errorf("%s at %d columns: nothing was printed", what, columns)
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n") // a foot begins anew
	text = ownSequences.ReplaceAllString(text, "")
	for line := range strings.SplitSeq(text, "\n") {
		if n := wording.Columns.StringWidth(line); n > columns {
			t.Errorf("%s at %d columns: a line of %d: %q", what, columns, n, line)
		}
	}
	if at := brokenNumber.FindString(text); at != "" {
		t.Errorf("%s at %d columns: a number is broken: %q", what, columns, at)
	}
}

// TestHelpFitsTheTerminal: help of every command at every width.
func TestHelpFitsTheTerminal(t *testing.T) {
	t.Parallel()
	pages := [][]string{{"--help"}}
	for _, command := range commands(&process{}) {
		pages = append(pages, []string{command.Name, "--help"}, []string{command.Name, "--help-all"})
	}
	none := func(string) (string, bool) { return "", false }
	for _, columns := range terminalWidths {
		for _, args := range pages {
			text := screenOf(t, columns, func(terminal *os.File) {
				if code := Main(t.Context(), nil, args, none, strings.NewReader(""), terminal, terminal); code != 0 {
					t.Errorf("%v ended with %d", args, code)
				}
			})
			fitsTerminal(t, strings.Join(args, " "), text, columns)
		}
	}
}

// TestMessagesFitTheTerminal: errors, warnings and notes on standard error break between words, and
// commands to copy stay whole.
func TestMessagesFitTheTerminal(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"docs/a.md": "A.", "docs/b.md": "B.",
		"warned.yaml": "name: round #2\ndocuments: [docs/*.md]\njudges: [simulator:careful]\npairwise: {}\n",
		"wrong.yaml":  "name: x\ndocument: [docs/*.md]\njudges: [simulator:careful]\npairwise: {order: neither, trials: many}\n",
	})
	program := must(binary())
	for _, columns := range terminalWidths {
		for _, c := range []struct {
			args []string
			says string
		}{
			{[]string{"report", "nodir"}, "nodir is not a folder"},
			{[]string{"status"}, "needs a fleet's Redis"},
			{[]string{"validate", "warned.yaml"}, "begins a comment"},
			{[]string{"validate", "wrong.yaml"}, "wrong.yaml:2:1: document: unknown key"},
			{[]string{"run", "warned.yaml", "--dry-run"}, "nothing was sent or stored"},
		} {
			text := screenOf(t, columns, func(terminal *os.File) {
				cmd := exec.Command(program, c.args...)
				cmd.Dir, cmd.Stderr = dir, terminal
				_ = cmd.Run() // most fail
			})
			fitsTerminal(t, strings.Join(c.args, " "), text, columns)
			if got := strings.Join(strings.Fields(text), " "); !strings.Contains(got, c.says) {
				t.Errorf("%v at %d columns: got %q, want it to say %q", c.args, columns, got, c.says)
			}
		}
	}
}

// TestTablesFitTheTerminal: what commands print about an evaluation, a fleet and a file, at every
// width.
func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	redis := redistest.NewTCP(t)
	dir := tree(t, map[string]string{
		"docs/a-document-with-a-rather-long-name-first.md":  "Alpha beta gamma.",
		"docs/a-document-with-a-rather-long-name-second.md": "Alpha beta delta gamma.",
		"docs/c.md": "Alpha.",
		"eval.yaml": `name: an evaluation with a rather long name, as people give them
documents: [docs/*.md]
judges: [simulator:careful, {name: a judge whose name is longer than its column has room for, model: simulator:average}]
single: {criteria: [style, clarity]}
pairwise: {}
concurrency: {per_provider: {simulator: {max_concurrency: 16, requests_per_minute: 60000, tokens_per_minute: 123456789}}}
budget: {usd: 5}
`,
	})
	program := must(binary())
	run := func(columns int, args ...string) string {
		return screenOf(t, columns, func(terminal *os.File) {
			cmd := exec.Command(program, args...)
			cmd.Dir, cmd.Stdin, cmd.Stdout = dir, terminal, terminal
			cmd.Env = append(os.Environ(), "EVALFLEET_METRICS_ADDR=off", "XDG_STATE_HOME="+stateFolder(), "TERM=xterm")
			if err := cmd.Run(); err != nil {
				t.Errorf("%v: %v", args, err)
			}
		})
	}
	fleet := []string{"--redis", redis.URL()}
	id, err := exec.Command(program, append([]string{"enqueue", filepath.Join(dir, "eval.yaml")}, fleet...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for k, columns := range terminalWidths {
		out := "out" + string(rune('a'+k))
		for _, args := range [][]string{
			{"validate", "eval.yaml"},
			{"estimate", "eval.yaml"},
			{"doctor", "eval.yaml"},
			{"run", "eval.yaml", "--out-dir", out},
			{"status", out},
			{"limits", out},
			{"show", "1.0", out},
			{"report", out},
			{"report", out, "--details"},
			append([]string{"status"}, fleet...),
			append([]string{"limits"}, fleet...),
			append([]string{"show", "1.0", strings.TrimSpace(string(id))}, fleet...),
		} {
			fitsTerminal(t, strings.Join(args, " "), run(columns, args...), columns)
		}
	}
}
