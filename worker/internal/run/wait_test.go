package run

import (
	"strings"
	"testing"
)

func TestShorten(t *testing.T) {
	t.Parallel()
	if got := Shorten("as it is"); got != "as it is" {
		t.Errorf("a short text became %q", got)
	}
	if got := []rune(Shorten(strings.Repeat("ß", 1000))); len(got) != summaryRunes+1 {
		t.Errorf("a long text became %d characters, want %d", len(got), summaryRunes+1)
	}
}
