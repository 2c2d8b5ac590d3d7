package config

import (
	"runtime"
	"strings"
	"testing"
)

// A file of a megabyte that nests as deep as it can is refused before the parser, whose
// memory grows with the square of the depth, sees it.
func TestHostileYAMLIsRefusedCheaply(t *testing.T) {
	for _, part := range []string{"[", "{", "{\"", "- ", "? ", "{a: ", "[a, ", "a: ", "- a: ", "[\"]\",", "{\"a\":", "[*a,", "? - ", "[],"} {
		text := strings.Repeat(part, 1<<20/len(part))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, got := problemsOf(t, map[string]string{"eval.yaml": text}, Options{})
		runtime.ReadMemStats(&after)
		if len(got) > 500 {
			t.Errorf("%q: the problem is %d bytes long", part, len(got))
		}
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 1000 {
			t.Errorf("%q: reading 1 MB of it took %d MB", part, took)
		}
	}
	text := strings.Repeat("[", maxText)
	if _, got := problemsOf(t, map[string]string{"eval.yaml": text}, Options{}); !strings.Contains(got, "too many values") {
		t.Errorf("%d brackets: got %s", maxText, got)
	}
}

// What people write is not near the bounds.
func TestLongFilesAreRead(t *testing.T) {
	t.Parallel()
	var list strings.Builder
	runs := 5000
	if testing.Short() {
		runs = 1500
	}
	for range runs {
		list.WriteString("  - {file_a: \"docs/a.md\", \"file_b\": 'docs/b.md', overrides: {stop: [[a], {b: [c]}]}}\n")
	}
	s := load(t, with(two, "eval.yaml", "\"name\": \"x\"\n\"provider\": \"simulator\"\nmodel: careful\ngrounding: off\nreasoning: off\nruns:\n"+list.String()), Options{})
	if got := len(s.Evaluation.Runs.List); got != runs {
		t.Errorf("got %d runs, want %d", got, runs)
	}
}
