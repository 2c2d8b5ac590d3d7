package lines

import (
	"fmt"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// widest is the width of the widest line.
func widest(text string) int {
	most := 0
	for line := range strings.Lines(text) {
		most = max(most, wording.Columns.StringWidth(strings.TrimSuffix(line, "\n")))
	}
	return most
}

// A table that does not fit is stacked: every cell is there, with its head, and no line is too
// wide; one that fits has columns.
func TestWriteStacked(t *testing.T) {
	t.Parallel()
	rows := append(Table{{Head: "LIMIT", Flexible: true}}, append(Heads("IN USE", "ALLOWED"), Column{})...)
	rows.Add("provider openai: 1.5 M tokens/min", "123,456", "1.5 M/min", "binds")
	rows.Add("字字字字字字字字字字字字字字字字", "-", "16", "")
	for _, width := range []int{50, 60, 100} {
		var text strings.Builder
		out := New(&text, width, false)
		var below []int
		rows.WriteStacked(out, func(row int) { below = append(below, row) })
		if err := out.Flush(); err != nil {
			t.Fatal(err)
		}
		if n := widest(text.String()); n > width {
			t.Errorf("%d columns: a line of %d:\n%s", width, n, &text)
		}
		if fmt.Sprint(below) != "[0 1]" {
			t.Errorf("%d columns: below was called for %v", width, below)
		}
		stacked := width < 60
		if strings.Contains(text.String(), "in use 123,456 · allowed 1.5 M/min") != stacked || !strings.Contains(text.String(), "binds") ||
			strings.Contains(text.String(), "IN USE") == stacked {
			t.Errorf("%d columns:\n%s", width, &text)
		}
	}
}

// Wrapped lines break between words, and never before a percent sign; a word wider than a line
// keeps both its ends.
func TestWrap(t *testing.T) {
	t.Parallel()
	for width := 20; width < 60; width++ {
		var text strings.Builder
		out := New(&text, width, false)
		out.Wrap("- ", "Judges agree on 94 % of pairs, and order changes 0 %, or so, of "+strings.Repeat("x", 80)+"end at 95 %.")
		if err := out.Flush(); err != nil {
			t.Fatal(err)
		}
		if widest(text.String()) > width || strings.Contains(text.String(), "\n  %") || !strings.Contains(text.String(), "xend") {
			t.Errorf("%d columns:\n%s", width, &text)
		}
	}
}

// Fold loses nothing and keeps indentation.
func TestFold(t *testing.T) {
	t.Parallel()
	text := "short\n    " + strings.Repeat("word ", 30) + "\n\n" + strings.Repeat("y", 70) + "\n\tcode 字字字字字字字字字字字字字字字字字字字字字字字\n"
	for _, width := range []int{20, 40, 60, 400} {
		folded := Fold(text, width)
		if n := widest(folded); n > width {
			t.Errorf("%d columns: a line of %d:\n%s", width, n, folded)
		}
		if got, want := strings.Join(strings.Fields(folded), ""), strings.Join(strings.Fields(text), ""); got != want {
			t.Errorf("%d columns: got\n%s\nwant all of\n%s", width, got, want)
		}
		if width < 100 && !strings.Contains(folded, "\n    word word") {
			t.Errorf("%d columns: the indentation is lost:\n%s", width, folded)
		}
	}
}

// A message breaks between words, and loses nothing. What a reader copies stays whole: a path, and
// a command in backquotes or behind a colon.
func TestMessage(t *testing.T) {
	t.Parallel()
	const path, quoted, command = "/home/ann/evaluations/a-folder-with-a-long-name/results.db", "`evalfleet collect ev-bcgjnpsqvouz`", "evalfleet run 'my file.yaml' --redis redis://127.0.0.1:6379 --out-dir out"
	text := "evalfleet: open results database " + path + ": there is no such file: name another one, and 95 % of all is well; " + quoted + " brings its results here\n" +
		"short\n\n  - an indented line that is much longer than the others, with more words than fit\n" +
		"interrupted: 3 of 8 runs are in out; resume with: " + command + "; and so on, and on, and on, as long as it takes\n"
	for _, columns := range []int{20, 40, 60, 80, 1000} {
		got := Message(text, columns)
		for _, whole := range []string{path, quoted, command, "95 %"} {
			if !strings.Contains(got, whole) {
				t.Errorf("%d columns: %q is broken:\n%s", columns, whole, got)
			}
		}
		for line := range strings.Lines(got) {
			line = strings.TrimSpace(line)
			if words := messageWords(line); len(words) > 1 && line != command+";" && widest(line) > columns {
				t.Errorf("%d columns: a line of %d words is too wide: %q", columns, len(words), line)
			}
		}
		if !strings.Contains(got, "\nshort\n\n") || columns < 80 && !strings.Contains(got, "\n    ") {
			t.Errorf("%d columns: lines and indentation are not kept:\n%s", columns, got)
		}
		if got, want := strings.Join(strings.Fields(got), " "), strings.Join(strings.Fields(text), " "); got != want {
			t.Errorf("%d columns: got\n%s\nwant all of\n%s", columns, got, want)
		}
	}
	if got := Message(text, 1000); got != text {
		t.Errorf("a text that fits is changed: %q", got)
	}
}
