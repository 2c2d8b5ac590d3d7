package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval/foreign/judgments"
)

func TestHalfCharacters(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]int{
		``: -1, `\`: -1, `\u`: -1, `\ud83`: -1,
		`"\u0041 \n \\ud83d \\\\ude42"`: -1, `"\ud83d\ude42\uD83D\uDE42x"`: -1, `"🙂"`: -1,
		`"\ud83d"`: 1, `"\ude42"`: 1, `"\uDE42\uD83D"`: 1, `"\ud83d\\ude42"`: 1, `"\ud83d \ude42"`: 1, `"\ud83d\ud83d\ude42"`: 1,
		`"\ud83d\ude42\ude42"`: 13, `"\\\ud83d"`: 3, `"\ud83d\u0041"`: 1,
	} {
		if got := halfCharacter([]byte(line)); got != want {
			t.Errorf("%s: half a character at %d, want %d", line, got, want)
		}
	}
}

// Rows are refused if a text in them is half a character, as documents are.
func TestRowsWithHalfCharacters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "votes.jsonl")
	if err := os.WriteFile(path, []byte(`{"model_a":"a","winner":"x\ud83d"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := Rows(path, func(int, judgments.Row) error { return nil })
	if err == nil || !strings.Contains(err.Error(), `votes.jsonl:1:27: \ud83d is half of a surrogate pair`) {
		t.Errorf("read with %v, want an error that names the half", err)
	}
}
