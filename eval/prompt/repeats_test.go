package prompt_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
)

// beginnings returns the texts that end where the prompt says that others repeat it.
func beginnings(p prompt.Prompt) []string {
	var all []string
	for _, end := range p.Repeats {
		text := ""
		for i, m := range p.Messages[:end.Message+1] {
			if i < end.Message {
				text += m.Content + "\n"
				continue
			}
			text += m.Content[:end.Offset]
		}
		all = append(all, text)
	}
	return all
}

// What prompts repeat comes first: the instructions in all, the question in those of its item, and the text in those that
// show it first. Ids stay as they are, because no text moves.
func TestRepeatedBeginnings(t *testing.T) {
	t.Parallel()
	e, texts := answers("Rayleigh.", "Scattering.", "Because.")
	e.Blind = true
	e.Items = append(e.Items, eval.Item{ID: "q2", Question: "Why is the sea blue?"})
	e.Documents[2].Item = 1
	d := eval.Document{ID: "d.md", Item: 1, Hash: eval.TextHash("It mirrors."), Bytes: 11}
	e.Documents, texts[d.Hash] = append(e.Documents, d), "It mirrors."

	one := beginnings(mustBuild(t, e, eval.KindPairwise, 0, 1, texts))
	turned := beginnings(mustBuild(t, e, eval.KindPairwise, 1, 0, texts))
	other := beginnings(mustBuild(t, e, eval.KindPairwise, 2, 3, texts))
	if len(one) != 3 || len(turned) != 3 || len(other) != 3 {
		t.Fatalf("%d, %d and %d beginnings, want 3 each", len(one), len(turned), len(other))
	}
	for _, test := range []struct {
		level      int
		a, b       []string
		same       bool
		ends, what string
	}{
		{0, one, other, true, "Question that the documents answer:\n\n", "all prompts"},
		{1, one, turned, true, "Documents:\n\n", "prompts of one item"},
		{1, one, other, false, "Documents:\n\n", "prompts of two items"},
		{2, one, turned, false, "", "prompts with another first document"},
	} {
		if (test.a[test.level] == test.b[test.level]) != test.same {
			t.Errorf("%s: same beginning is %v, want %v", test.what, !test.same, test.same)
		}
		if !strings.HasSuffix(test.a[test.level], test.ends) {
			t.Errorf("%s: the beginning ends with %q", test.what, test.a[test.level])
		}
	}
	if !strings.Contains(one[2], "Rayleigh.") || strings.Contains(one[2], "Scattering.") || !strings.Contains(one[2], "</document fence=") {
		t.Errorf("the longest beginning is not all up to the end of the first document:\n%s", one[2])
	}
}

// A template may begin with its documents, or put the question into the system message.
func TestBeginningsFollowTheTemplate(t *testing.T) {
	t.Parallel()
	for template, want := range map[string][]prompt.Position{
		"[[documents]]":                                    {{Offset: 68}},
		"Judge.\n[[user]]\n[[documents]]":                  {{Offset: 6}, {Message: 1, Offset: 68}},
		"Judge.\n[[question]]\n[[user]]\n[[documents]]":    {{Offset: 7}, {Offset: 84}, {Message: 1, Offset: 68}},
		"Judge.\n[[user]]\nNow:\n[[documents]]\n[[scale]]": {{Message: 1, Offset: 5}, {Message: 1, Offset: 73}},
	} {
		e, texts := answers("x")
		e.Single.Template = template
		built := mustBuild(t, e, eval.KindSingle, 0, -1, texts)
		shown := strings.Index(built.Messages[len(built.Messages)-1].Content, "\n</document")
		if shown < 0 {
			t.Fatalf("no document in %q", built.Messages)
		}
		if diff := cmp.Diff(want, built.Repeats); diff != "" {
			t.Errorf("%q: (-want +got):\n%s\n%q", template, diff, beginnings(built))
		}
	}
}
