package config

import "testing"

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
