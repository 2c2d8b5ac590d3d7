package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestNewLogger(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		terminal      bool
		level, format string
		lines         int
		json          bool
	}{
		{"for machines", false, "", JSON, 2, true},
		{"on a terminal", true, "", Plain, 1, false},
		{"everything", false, "debug", JSON, 3, true},
		{"errors only", true, "error", JSON, 0, true},
		{"lines elsewhere", false, "", Plain, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			log, err := NewLogger(&out, c.terminal, c.level, c.format)
			if err != nil {
				t.Fatal(err)
			}
			log.Debug().Msg("one")
			log.Info().Msg("two")
			log.Warn().Str("said", "\u202ereversed").Msg("three\u009b2J")
			if got := strings.Count(out.String(), "\n"); got != c.lines {
				t.Errorf("got %d lines, want %d:\n%s", got, c.lines, out.String())
			}
			if strings.ContainsAny(out.String(), "\u202e\u009b") {
				t.Errorf("marks of direction and control characters reach the log: %q", out.String())
			}
			for line := range strings.Lines(out.String()) {
				if json.Valid([]byte(line)) != c.json {
					t.Errorf("line %q: want JSON %v", line, c.json)
				}
			}
		})
	}
	for _, c := range [][2]string{{"loud", JSON}, {"", "xml"}} {
		if _, err := NewLogger(&bytes.Buffer{}, false, c[0], c[1]); !errors.Is(err, ErrLevel) && !errors.Is(err, ErrFormat) {
			t.Errorf("level %q, format %q: got %v, want an error that says what there is", c[0], c[1], err)
		}
	}
}

// On a terminal a line about a run begins with its id, which cannot steer the
// terminal; for machines it is a field.
func TestLinesAboutARunBeginWithItsID(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		terminal   bool
		id, prefix string
	}{
		{true, "r1", "[r1] "},
		{true, "0.17", "[0.17] "},
		{true, "", "\x1b[90m"}, // the time, in grey
		{true, "a\x1b[2Jb\nc", "[a"},
		{false, "r1", "{"},
	} {
		var out bytes.Buffer
		format := JSON
		if c.terminal {
			format = Plain
		}
		log, err := NewLogger(&out, c.terminal, "", format)
		if err != nil {
			t.Fatal(err)
		}
		event := log.Warn()
		if c.id != "" {
			event = event.Str("run_id", c.id)
		}
		event.Str("model", "m").Msg("call timed out")
		got := out.String()
		if !strings.HasPrefix(got, c.prefix) || strings.Count(got, "\n") != 1 || strings.Contains(got, "\x1b[2J") {
			t.Errorf("run %q on a terminal %t: got %q, want it to begin with %q", c.id, c.terminal, got, c.prefix)
		}
		if c.terminal && strings.Contains(got, "run_id") {
			t.Errorf("run %q: the id is there twice in %q", c.id, got)
		}
	}
}
