//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunAsksBeforeItSpends: on a terminal, `run` says what an evaluation may cost and asks above confirm_above. It does
// not ask an evaluation that has made calls, nor one with --yes or a budget. Without a terminal it does not ask. It always
// says that prices are old.
func TestRunAsksBeforeItSpends(t *testing.T) {
	t.Parallel()
	f := newFleetWith(t)
	f.configure(f.provider, calm)
	f.add("fleet.yaml", "prices: {\"simulator:*\": {input: 0, output: 1000, as_of: 2020-02-29}}\n")
	f.documents(3)
	const questions = "documents: [\"docs/*.md\"]\njudges: [\"simulator:careful\"]\npairwise: {}\n"
	const most, question = "confirm_above: {usd: 0.01}\n", "Start it? [y/N] "
	write := func(name, settings string) []string {
		return []string{"run", f.write(name+".yaml", "name: "+name+"\n"+questions+settings), "--config", "fleet.yaml", "--out-dir", name}
	}
	old := func(name, said string) {
		t.Helper()
		if n := strings.Count(said, "warning: prices older than 90 days: simulator "); n != 1 {
			t.Errorf("%s: it says %d times that prices are old, want once:\n%s", name, n, said)
		}
	}
	calls := 0
	wantCalls := func(name string, added int) {
		t.Helper()
		calls += added
		if got := f.stats().All.Arrived; got != calls {
			t.Errorf("%s: %d calls so far, want %d", name, got, calls)
		}
	}

	dear := write("dear", most)
	for _, c := range []struct {
		name, typed string
		code        exit
		last        string
		calls       int
	}{
		{"no", "n\n", exitUsage, "evalfleet: no calls were made", 0},
		{"Ctrl-C", "\x03", exitInterrupted, "evalfleet: interrupted: no calls were made", 0},
		{"yes", "y\n", exitOK, "", 6},
	} {
		asked, said, code := f.typing(c.typed, dear...)
		if !strings.HasSuffix(asked, question) || !strings.Contains(asked, "at least 6 calls for about $") {
			t.Errorf("%s: asked %q", c.name, asked)
		}
		if code != c.code || c.last != "" && lastLine(said) != c.last {
			t.Errorf("%s: exit code %d, %q; want %d and %q", c.name, code, said, c.code, c.last)
		}
		old(c.name, asked)
		wantCalls(c.name, c.calls)
	}

	for _, c := range []struct {
		name  string
		args  []string
		calls int
	}{
		{"its calls were made", dear, 0},
		{"--yes", append(write("answered", most), "--yes"), 6},
		{"a budget", write("bounded", most+"budget: {usd: 900}\n"), 6},
		{"a higher bound", write("cheap", "confirm_above: {usd: 900}\n"), 6},
	} {
		asked, said, code := f.typing("n\n", c.args...)
		if asked != "" || code != exitOK {
			t.Errorf("%s: asked %q, exit code %d, %s; want no question", c.name, asked, code, said)
		}
		if told := strings.Contains(said, "at least 6 calls for about $"); told != (c.calls > 0) {
			t.Errorf("%s: it says what it may cost: %t\n%s", c.name, told, said)
		}
		if c.calls > 0 {
			old(c.name, said)
		}
		wantCalls(c.name, c.calls)
	}

	grown := write("growing", most)[:4] // beside each other, output folders are looked through
	f.typing("y\n", grown...)
	wantCalls("before it grows", 6)
	f.write("docs/d03.md", "A fourth essay.\n")
	if asked, _, _ := f.typing("n\n", grown...); !strings.Contains(asked, "at least 6 calls for about $") {
		t.Errorf("an evaluation that has grown: asked %q, want what is new", asked)
	}
	if err := os.Remove(filepath.Join(f.dir, "docs", "d03.md")); err != nil {
		t.Fatal(err)
	}

	p := launch(t, f.dir, write("unattended", most)...)
	if code := p.wait(); code != int(exitOK) || !strings.Contains(p.stderr.String(), "to bound the cost, add budget: {usd: …} to the file") {
		t.Errorf("without a terminal: exit code %d, %s", code, p.stderr.String())
	}
	old("without a terminal", p.stderr.String())
	wantCalls("without a terminal", 6)

	p = launch(t, f.dir, write("unattended with a budget", "budget: {usd: 900}\n")...)
	if code := p.wait(); code != int(exitOK) {
		t.Errorf("without a terminal, with a budget: exit code %d, %s", code, p.stderr.String())
	}
	old("without a terminal, with a budget", p.stderr.String())
}
