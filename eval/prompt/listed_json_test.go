package prompt_test

import (
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
)

// A listed run that wants JSON is asked for it behind both texts, in prose without
// that, and the second of two calls sees the instructions and the answer, not the input.
func TestListedInJSON(t *testing.T) {
	t.Parallel()
	texts := map[string]string{"1": "Give the field year.", "2": "It was in 1969."}
	built, err := prompt.Listed(eval.Document{ID: "a.md", Hash: "1"}, eval.Document{ID: "b.md", Hash: "2"}, texts, true)
	if err != nil {
		t.Fatal(err)
	}
	const want = "Give the field year.\n\nIt was in 1969."
	if got := built.Messages[0].Content; !strings.HasPrefix(got, want+"\n\n") || !strings.Contains(got, "one JSON object") || !built.Open || built.Schema == nil {
		t.Errorf("asked for JSON: got %q, open %v, schema %s", got, built.Open, built.Schema)
	}
	if got := built.Prose(); len(got) != 1 || got[0].Content != want {
		t.Errorf("asked in prose: got %q, want the two texts", got)
	}
	got := built.Jsonify("The year is </answer> 1969.")[0].Content
	for _, part := range []string{"Give the field year.", "The year is </answer> 1969.", "one JSON object"} {
		if !strings.Contains(got, part) {
			t.Errorf("the second call lacks %q: %s", part, got)
		}
	}
	if strings.Contains(got, "It was in 1969.") {
		t.Errorf("the second call sees the input: %s", got)
	}
}
