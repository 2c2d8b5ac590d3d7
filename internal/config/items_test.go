package config

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
)

// itemFiles are answers of two models to two questions, with facts about these. Pairs of
// texts replace parts of all files.
func itemFiles(replace ...string) map[string]string {
	files := map[string]string{
		"eval.yaml": "documents: {jsonl: a.jsonl, fields: [level]}\njudges: [simulator:fair]\npairwise: {}\n",
		"a.jsonl": `{"item": "q1", "candidate": "x", "text": "1", "question": "One?", "reference": "Uno.", "category": ["b", "a"], "level": 2}
{"item": "q1", "candidate": "y", "text": "2", "category": ["a", "b"]}
{"item": "q2", "candidate": "x", "text": "3", "question": "Two?"}
{"item": "q2", "candidate": "y", "text": "4", "question": "Two?", "category": "a"}
`,
		"own.md":   "[[question]]\n[[documents]]",
		"level.md": "[[question]]\nLevel: [[item.level]]\n[[reference]]\n[[documents]]",
		"more.md":  "[[question]]\n[[item.missing]]\n[[documents]]",
	}
	for name := range files {
		files[name] = strings.NewReplacer(replace...).Replace(files[name])
	}
	return files
}

func TestItemsHaveFacts(t *testing.T) {
	t.Parallel()
	built := load(t, itemFiles(), Options{}).Evaluation
	want := []eval.Item{
		{ID: "q1", Question: "One?", Reference: "Uno.", Categories: []string{"a", "b"}, Facts: map[string]string{"level": "2"}},
		{ID: "q2", Question: "Two?", Categories: []string{"a"}},
	}
	if diff := cmp.Diff(want, built.Items); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	if built.Pairwise.Template != prompt.ReferenceTemplate(eval.KindPairwise) {
		t.Error("the built-in template does not show the reference")
	}
	own := load(t, itemFiles("pairwise: {}", "pairwise: {template: own.md}"), Options{}).Evaluation
	if item := own.Items[0]; item.Reference != "" || item.KnownReference() != "Uno." {
		t.Errorf("a reference that no template shows: %+v", item)
	}
	level := load(t, itemFiles("pairwise: {}", "pairwise: {template: level.md}"), Options{}).Evaluation
	if item := level.Items[0]; item.Fields["level"] != "2" || len(item.Facts) > 0 || item.Reference == "" {
		t.Errorf("a field that a template shows: %+v", item)
	}
}

// What judges see is part of the identity, and what they do not see is not.
func TestFactsThatJudgesSeeAreTheQuestion(t *testing.T) {
	t.Parallel()
	id := func(replace ...string) eval.ID { return load(t, itemFiles(replace...), Options{}).Evaluation.ID() }
	template := func(name string) []string { return []string{"pairwise: {}", "pairwise: {template: " + name + "}"} }
	for _, c := range []struct {
		name   string
		before []string
		change []string
		same   bool
	}{
		{"a category", nil, []string{`"category": "a"`, `"category": "c"`}, true},
		{"a field that no template shows", nil, []string{`"level": 2`, `"level": 3`}, true},
		{"a reference of the built-in template", nil, []string{"Uno", "Un"}, false},
		{"a reference that no template shows", template("own.md"), []string{"Uno", "Un"}, true},
		{"a field that a template shows", template("level.md"), []string{`"level": 2`, `"level": 3`}, false},
	} {
		if same := id(c.before...) == id(append(c.before[:len(c.before):len(c.before)], c.change...)...); same != c.same {
			t.Errorf("%s: the same evaluation: %t, want %t", c.name, same, c.same)
		}
	}
}

func TestItemsFile(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"eval.yaml": "documents: {files: \"d/<item>/<candidate>.md\"}\nitems: items.jsonl\njudges: [simulator:fair]\npairwise: {template: t.md}\n",
		"t.md":      "[[question]] [[item.source]] [[documents]]",
		"d/q1/x.md": "1", "d/q1/y.md": "2",
		"items.jsonl": `{"item": "q1", "question": "One?", "reference": "Uno.", "category": "c", "source": "a book", "tags": ["k", 2]}
{"item": "q9", "question": "Nine?"}
`,
	}
	s := load(t, files, Options{})
	want := []eval.Item{{
		ID: "q1", Question: "One?", Categories: []string{"c"}, Fields: map[string]string{"source": "a book"},
		Facts: map[string]string{"reference": "Uno.", "tags": `["k",2]`},
	}}
	if diff := cmp.Diff(want, s.Evaluation.Items); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0].String(), "items without documents: 1") {
		t.Errorf("warnings: %v", s.Warnings)
	}
	for name, c := range map[string]struct{ lines, problem string }{
		"two lines":   {`{"item": "q1"}` + "\n" + `{"item": "q1"}`, `a second line about the item "q1"`},
		"none fits":   {`{"item": "q7"}`, "no document belongs to any item"},
		"no category": {`{"item": "q1", "category": {"a": 1}}`, "the value is not a category"},
		"hides":       {`{"item": "q1", "category": "a\u202eb"}`, "cannot be a category"},
		"no text":     {`{"item": "q1", "question": 4}`, "the value is not text"},
	} {
		other := maps.Clone(files)
		other["items.jsonl"] = c.lines
		other["t.md"] = "[[documents]]"
		if _, text := problemsOf(t, other, Options{}); !strings.Contains(text, c.problem) {
			t.Errorf("%s: got %q, want %q", name, text, c.problem)
		}
	}
}

func TestFactsAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		replace []string
		problem string
	}{
		"another category":  {[]string{`"category": ["a", "b"]`, `"category": "z"`}, `item "q1" has another category here than in`},
		"another reference": {[]string{`"text": "2",`, `"text": "2", "reference": "Due.",`}, `item "q1" has another reference here than in`},
		"no such field":     {[]string{"pairwise: {}", "pairwise: {template: more.md}"}, "[[item.missing]], which no item has"},
		"a field not met":   {[]string{"fields: [level]", "fields: [levels]"}, "no line of"},
	} {
		if _, text := problemsOf(t, itemFiles(c.replace...), Options{}); !strings.Contains(text, c.problem) {
			t.Errorf("%s: got %q, want %q", name, text, c.problem)
		}
	}
}
