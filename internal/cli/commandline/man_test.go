package commandline

import "testing"

func TestRoffHasNoInstructions(t *testing.T) {
	t.Parallel()
	if got, want := roff(`.a-b\c`), `\&.a\-b\ec`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
