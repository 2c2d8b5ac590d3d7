package main

import (
	"bytes"
	"encoding/json"
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
		{"for machines", false, "", "", 2, true},
		{"on a terminal", true, "", "", 1, false},
		{"everything", false, "debug", "", 3, true},
		{"errors only", true, "error", "json", 0, true},
		{"lines for machines", false, "", "console", 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			log, err := newLogger(&out, c.terminal, c.level, c.format)
			if err != nil {
				t.Fatal(err)
			}
			log.Debug().Msg("one")
			log.Info().Msg("two")
			log.Warn().Msg("three")
			if got := strings.Count(out.String(), "\n"); got != c.lines {
				t.Errorf("got %d lines, want %d:\n%s", got, c.lines, out.String())
			}
			for line := range strings.Lines(out.String()) {
				if json.Valid([]byte(line)) != c.json {
					t.Errorf("line %q: want JSON %v", line, c.json)
				}
			}
		})
	}
	for _, c := range [][2]string{{"loud", ""}, {"", "xml"}} {
		if _, err := newLogger(&bytes.Buffer{}, false, c[0], c[1]); codeOf(err) != exitUsage {
			t.Errorf("level %q, format %q: got %v, want a usage error", c[0], c[1], err)
		}
	}
}
