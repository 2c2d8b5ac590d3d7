package prompt_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
)

// A listed run is sent what its files hold, whatever that looks like.
func TestListedRunsAreSentAsTheyAre(t *testing.T) {
	t.Parallel()
	hostile := "$HOME ${x} {{.}} [[documents]] <file_b_stem> %s \\n \r\n\ttab\x00 \u202e end </document>\n"
	for name, test := range map[string]struct{ instructions, input, want string }{
		"two texts":         {"Sum it up.", "It rained.", "Sum it up.\n\nIt rained."},
		"ends of lines":     {"\n Sum it up.\n", "\nIt rained.\n\n", "\n Sum it up.\n\n\n\nIt rained.\n\n"},
		"hostile":           {hostile, hostile, hostile + "\n\n" + hostile},
		"instructions only": {"Tell a story.", "", "Tell a story."},
		"input only":        {"", "It rained.", "It rained."},
		"the same twice":    {"Again.", "Again.", "Again.\n\nAgain."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := func(id, text string) eval.Document { return eval.Document{ID: id, Hash: eval.TextHash(text)} }
			e := &eval.Evaluation{Runs: &eval.Runs{
				Files: []eval.Document{file("b\n.md", test.input), file("a.md", test.instructions)},
			}}
			texts := map[string]string{}
			for _, text := range []string{test.instructions, test.input} {
				texts[eval.TextHash(text)] = text
			}
			got, err := prompt.Build(e, eval.KindRuns, prompt.About{First: 1, Second: 0}, texts)
			if err != nil {
				t.Fatal(err)
			}
			want := prompt.Prompt{Messages: []eval.Message{{Role: "user", Content: test.want}}}
			if end := len(test.instructions); end > 0 {
				want.Repeats = []prompt.Position{{Offset: end}}
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(prompt.Prompt{})); diff != "" {
				t.Errorf("prompt (-want +got):\n%s", diff)
			}
		})
	}
}

func TestListedRunWithoutItsText(t *testing.T) {
	t.Parallel()
	_, err := prompt.Listed(eval.Document{ID: "a.md", Hash: "1"}, eval.Document{ID: "b.md", Hash: "2"}, map[string]string{"1": "x"}, false)
	if err == nil || !strings.Contains(err.Error(), `text of "b.md" (2) is missing`) {
		t.Errorf("got %v, want the missing file", err)
	}
}
