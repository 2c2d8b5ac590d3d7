package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
)

// rubricFiles are an evaluation of one item with a rubric, after replacements.
func rubricFiles(replace ...string) map[string]string {
	files := map[string]string{
		"eval.yaml":     "documents: {jsonl: answers.jsonl}\nitems: items.jsonl\njudges: [simulator:careful]\nsingle: {criteria: rubric}\n",
		"answers.jsonl": `{"item": "q", "candidate": "x", "text": "Ten milligrams."}` + "\n",
		"items.jsonl":   `{"item": "q", "question": "How much?", "rubric": RUBRIC}` + "\n",
		"own.md":        "[[question]]\n[[rubric]]\n[[documents]]",
		"without.md":    "[[question]]\n[[documents]]",
		"scaled.md":     "[[rubric]]\n[[scale]]\n[[documents]]",
	}
	replace = append(replace, "RUBRIC", `[{"criterion": "Names the dose.", "points": 5, "tags": ["b", "a", "a"]}, {"criterion": "Invents\n a source.", "points": -2.5}, "Is brief."]`)
	for name := range files {
		for i := 0; i < len(replace); i += 2 { // one after the other
			files[name] = strings.ReplaceAll(files[name], replace[i], replace[i+1])
		}
	}
	return files
}

func TestRubricOfAnItem(t *testing.T) {
	t.Parallel()
	want := []eval.Item{{ID: "q", Question: "How much?", Rubric: []eval.RubricCriterion{
		{Text: "Names the dose.", Points: 5, Tags: []string{"a", "b"}}, {Text: "Invents a source.", Points: -2.5}, {Text: "Is brief.", Points: 1},
	}}}
	of := func(replace ...string) *eval.Evaluation {
		return load(t, rubricFiles(replace...), Options{}).Evaluation
	}
	got := of()
	if diff := cmp.Diff(want, got.Items, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	single := eval.Single{
		Rubric: true, Criteria: []eval.Criterion{{Name: "rubric"}}, Scale: eval.Scale{Min: -42, Max: 100}, Trials: 1, Template: prompt.RubricTemplate(),
	}
	if diff := cmp.Diff(&single, got.Single); diff != "" {
		t.Errorf("single (-want +got):\n%s", diff)
	}

	for name, replace := range map[string][]string{
		"HealthBench's field":       {`"rubric":`, `"rubrics":`},
		"a field of answers":        {`items: items.jsonl`, ``, `jsonl: answers.jsonl`, `jsonl: answers.jsonl, fields: [rubric]`, `"text":`, `"question": "How much?", "rubric": RUBRIC, "text":`},
		"a template that shows all": {"criteria: rubric", "criteria: rubric, template: own.md"},
	} {
		if diff := cmp.Diff(want[0].Rubric, of(replace...).Items[0].Rubric); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if named := of("criteria: rubric", "criteria: [rubric]"); named.Single.Rubric || len(named.Items[0].Rubric) > 0 {
		t.Errorf("a criterion with the name rubric: %+v", named.Single)
	}
}

func TestRubricsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		replace []string
		says    string
	}{
		"none":               {[]string{`, "rubric": RUBRIC`, ``}, `eval.yaml:4:20: single.criteria: 1 item has no rubric, such as "q"; list it in documents: {fields: [rubric]}`},
		"text":               {[]string{"RUBRIC", `"be good"`}, `items.jsonl:1: the rubric of item "q": it is not a list of criteria`},
		"empty":              {[]string{"RUBRIC", `[]`}, "it has no criteria"},
		"a number":           {[]string{"RUBRIC", `[1]`}, "criterion 1 is neither text nor an object"},
		"no text":            {[]string{"RUBRIC", `[{"points": 1}]`}, "criterion 1 has no text"},
		"blank":              {[]string{"RUBRIC", `["\n "]`}, "criterion 1 has no text"},
		"points in words":    {[]string{"RUBRIC", `[{"criterion": "x", "points": "many"}]`}, "criterion 1 is neither text nor an object"},
		"no points":          {[]string{"RUBRIC", `["y", {"criterion": "x", "points": 0}]`}, "criterion 2 has 0 points"},
		"endless points":     {[]string{"RUBRIC", `[{"criterion": "x", "points": 1e300}]`}, "criterion 1 has 1e+300 points"},
		"only faults":        {[]string{"RUBRIC", `[{"criterion": "x", "points": -1}]`}, "no criterion earns points"},
		"twice":              {[]string{"RUBRIC", `["x", " x "]`}, `criterion 2 is there twice: "x"`},
		"many":               {[]string{"RUBRIC", "[" + strings.Repeat(`"x",`, 100) + `"y"]`}, "it has 101 criteria: at most 100 are read"},
		"long":               {[]string{"RUBRIC", `["` + strings.Repeat("x", 4001) + `"]`}, "has 4001 bytes"},
		"a tag as no name":   {[]string{"RUBRIC", `[{"criterion": "x", "tags": ["a\u0007"]}]`}, "cannot be a name"},
		"a scale":            {[]string{"criteria: rubric", "criteria: rubric, scale: [1, 5]"}, "rubrics have no scale"},
		"a template without": {[]string{"criteria: rubric", "criteria: rubric, template: without.md"}, "the template does not show the rubric"},
		"a scale in it":      {[]string{"criteria: rubric", "criteria: rubric, template: scaled.md"}, "the template shows [[scale]], which rubrics do not have"},
		"criteria too":       {[]string{"criteria: rubric", "criteria: [style], template: own.md"}, "the template shows [[rubric]], and criteria are listed"},
	} {
		_, said := problemsOf(t, rubricFiles(c.replace...), Options{})
		if !strings.Contains(said, c.says) || strings.Contains(said, "  ") {
			t.Errorf("%s: %s\nwant %q", name, said, c.says)
		}
	}
}

// TestRubricIsTheQuestion: criteria, points and tags are part of the identity where documents are scored by them.
func TestRubricIsTheQuestion(t *testing.T) {
	t.Parallel()
	id := func(replace ...string) eval.ID { return load(t, rubricFiles(replace...), Options{}).Evaluation.ID() }
	other := []string{"RUBRIC", `["x"]`}
	if id() == id(other...) {
		t.Error("another rubric is the same evaluation")
	}
	by := []string{"criteria: rubric", "criteria: [style]"}
	if id(by...) != id(append(by, other...)...) {
		t.Error("a rubric that nobody uses is part of the identity")
	}
}

// TestRubricsOfPrompts: answers to prompts are scored by the rubrics of their rows. A row without a question shows judges
// its other fields, and no points.
func TestRubricsOfPrompts(t *testing.T) {
	t.Parallel()
	s := load(t, map[string]string{
		"eval.yaml": "prompts: \"Capital of {{land}}?\"\nmodels: [\"simulator:a\", \"simulator:b\"]\nitems: items.jsonl\n" +
			"judges: [simulator:careful]\nsingle: {criteria: rubric}\n",
		"items.jsonl": `{"item": "q", "land": "Chad", "rubric": [{"criterion": "Names it.", "points": 812}]}` + "\n",
	}, Options{})
	got := s.Judging.Planned.Evaluation.Items
	want := []eval.Item{{ID: "q", Question: "land: Chad", Rubric: []eval.RubricCriterion{{Text: "Names it.", Points: 812}}}}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(eval.Item{}, "Facts")); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
}
