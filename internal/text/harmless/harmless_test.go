package harmless

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

func TestTextsAreHarmless(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, line, lines string }{
		{"plain", "plain", "plain"},
		{"two\r\nlines\t!", "two  lines !", "two\nlines\t!"},
		{"\x1b[2J\x1b]0;owned\x07", "�[2J�]0;owned�", "�[2J�]0;owned�"},
		{"C1 \u009b2J \u0085", "C1 �2J  ", "C1 �2J �"},
		{"del\x7f nul\x00 back\b", "del� nul� back�", "del� nul� back�"},
		{"a\u202eb\u2066c\u200f\u061c", "a�b�c��", "a�b�c��"},
		{"hidden\u200b\ufeff\U000e0041", "hidden���", "hidden���"},
		{"a\u2028b\u2029c", "a b c", "a�b�c"},
		{"bad\xff\x9b", "bad��", "bad��"},
		{"日本語 שלום é e\u0301 👩\u200d👧 می\u200cخواهم", "日本語 שלום é e\u0301 👩\u200d👧 می\u200cخواهم", "日本語 שלום é e\u0301 👩\u200d👧 می\u200cخواهم"},
	} {
		if got := Line(c.text); got != c.line {
			t.Errorf("Line(%q): got %q, want %q", c.text, got, c.line)
		}
		if got := Text(c.text); got != c.lines {
			t.Errorf("Text(%q): got %q, want %q", c.text, got, c.lines)
		}
	}
}

// However a text is split between writes, the same arrives, and JSON stays JSON.
func TestWriterJoinsSplitCharacters(t *testing.T) {
	t.Parallel()
	text := "{\"m\":\"日本 \u009b2J \u202e é\x7f👩\u200d👧\"}\n"
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := NewWriter(&out)
		for rest := text; rest != ""; {
			n, err := w.Write([]byte(rest[:min(size, len(rest))]))
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if got := out.String(); got != Text(text) || !json.Valid(out.Bytes()) {
			t.Errorf("in pieces of %d bytes: got %q, want %q", size, got, Text(text))
		}
	}
}

// A character that was cut off is written before the text that follows it.
func TestWriterKeepsOrder(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := NewWriter(&out)
	for _, part := range []string{"a", "\xe6", "b\n"} {
		if _, err := w.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := out.String(), "a\ufffdb\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("\x1b[31m\u202e\xff")
	f.Fuzz(func(t *testing.T, text string) {
		for _, got := range []string{Line(text), strings.NewReplacer("\n", "", "\t", "").Replace(Text(text))} {
			for _, r := range got {
				if !unicode.IsPrint(r) && r != zeroWidthJoiner && r != zeroWidthNonJoiner {
					t.Fatalf("%q: contains %U", got, r)
				}
			}
		}
		if once := Line(text); Line(once) != once {
			t.Fatalf("Line(%q) = %q, and again %q", text, once, Line(once))
		}
	})
}
