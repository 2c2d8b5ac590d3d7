package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var judgesOfSource = filepath.Join("testdata", "prompto", "judge")

// The source's own folder and completed file come to the source's own file of judges'
// prompts, line for line.
func TestJudgeFolder(t *testing.T) {
	t.Parallel()
	o := Options{Experiment: Experiment{Parallel: true}}
	f, err := LoadJudgeFolder(judgesOfSource, []string{"template.txt, template2.txt"}, []string{"gpt-4o", "gpt-4o"}, o)
	if err != nil {
		t.Fatal(err)
	}
	s, failed, err := f.Experiment("example", filepath.Join(judgesOfSource, "completed.jsonl"), o)
	if err != nil || failed != 0 {
		t.Fatalf("%d failed, %v", failed, err)
	}
	want, err := os.ReadFile(filepath.Join(judgesOfSource, "judge-example.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, row := range s.Evaluation.Prompts.Rows {
		got.WriteString(s.Texts[row.Hash] + "\n")
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if name, first := s.Evaluation.Name, s.Evaluation.Prompts.List[0].ID; name != "judge-example" || first != "judge-gpt-4o-template-0" || s.Queues[0].Name != "openai" {
		t.Errorf("experiment %s, its first run %s in queue %s: want judge-example, judge-gpt-4o-template-0 in openai", name, first, s.Queues[0].Name)
	}
}

// What failed is not judged; values that are no text are said as Python says them; the
// order is judges, templates, answers.
func TestJudgesOfAnswers(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"settings.json": `{"a": {"api": "test", "model_name": "m", "parameters": {}}, "b": {"model_name": "n", "parameters": {"x": 1}, "api": "test", "group": "g"}}`,
		"one.txt":       "{{{INPUT_PROMPT}}} says {OUTPUT_RESPONSE}", "two.v2.txt": "{OUTPUT_RESPONSE}$",
		"done.jsonl": `{"id": "q", "prompt": ["it's", {"role": "user", "n": [1.50, true, null]}], "response": ["a\n", "b\"'\u0001é"]}` + "\n" +
			`{"id": 2, "prompt": "?", "response": "An error", "error": "timeout: too late"}` + "\n" +
			`{"prompt": "{x}", "response": "<b>", "error": null}` + "\n",
	})
	f, err := LoadJudgeFolder(dir, []string{"one.txt,two.v2.txt"}, []string{"b", "a"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, failed, err := f.Experiment("x", filepath.Join(dir, "done.jsonl"), Options{})
	if err != nil || failed != 1 {
		t.Fatalf("%d failed, %v; want one", failed, err)
	}
	var got []string
	for _, p := range s.Evaluation.Prompts.List {
		got = append(got, p.ID)
	}
	want := []string{"judge-b-one-q", "judge-b-one-NA", "judge-b-two-q", "judge-b-two-NA", "judge-a-one-q", "judge-a-one-NA", "judge-a-two-q", "judge-a-two-NA"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	const first = `{"id": "judge-b-one-q", "template_name": "one", "prompt": "{[\"it's\", {'role': 'user', 'n': [1.50, True, None]}]} says ['a\\n', 'b\"\\'\\x01é']", "model_name": "n", "parameters": {"x": 1}, "api": "test", "group": "g", "input-id": "q", `
	if row := s.Texts[s.Evaluation.Prompts.Rows[0].Hash]; !strings.HasPrefix(row, first) {
		t.Errorf("first line: got\n%s\nwant it to begin with\n%s", row, first)
	}
	if row := s.Texts[s.Evaluation.Prompts.Rows[1].Hash]; !strings.Contains(row, `"prompt": "{{x}} says <b>"`) {
		t.Errorf("second line: got\n%s\nwant braces and brackets of the answer as they are", row)
	}
}

func TestJudgeFolderProblems(t *testing.T) {
	t.Parallel()
	const good = `{"a": {"api": "test", "model_name": "m", "parameters": {}}}`
	for name, c := range map[string]struct{ settings, template, judges, want string }{
		"another judge":   {good, "x", "aa", "settings.json: unknown judge aa; known: a"},
		"what is missing": {`{"a": {"model_name": "m"}}`, "x", "a", "settings.json:1:2: parameters: the line has no parameters; add \"parameters\": {}\nsettings.json:1:2: api: the line has no api; add \"api\": \"openai\""},
		"an unknown api":  {"{\"a\":\n {\"api\": \"tset\", \"model_name\": \"m\", \"parameters\": {}}}", "x", "a", "settings.json:2:10: a.api: unknown provider tset; did you mean test?"},
		"no object":       {`{"a": 1}`, "x", "a", "settings.json:1:2: a: got 1; want an object with api, model_name and parameters"},
		"an unknown name": {good, "x\n {ANSWER}", "a", "template.txt:2:2: no placeholder {ANSWER}; want {INPUT_PROMPT} or {OUTPUT_RESPONSE}; braces that mean themselves are doubled"},
		"a conversion":    {good, "{INPUT_PROMPT!r}", "a", "template.txt:1:1: no placeholder {INPUT_PROMPT!r}; want {INPUT_PROMPT} or {OUTPUT_RESPONSE}; braces that mean themselves are doubled"},
		"an open brace":   {good, "a {b", "a", "template.txt:1:3: a single {; write {{ for one that means itself"},
		"a closing brace": {good, "a }", "a", "template.txt:1:3: a single }; write }} for one that means itself"},
		"both files":      {`[]`, "}", "a", "template.txt:1:1: a single }; write }} for one that means itself\nsettings.json:1:1: not a JSON object: got array; for example {\"gpt-4o\": {\"api\": \"openai\", \"model_name\": \"gpt-4o\", \"parameters\": {\"temperature\": 0}}}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, map[string]string{"settings.json": c.settings, "template.txt": c.template})
			_, err := LoadJudgeFolder(dir, []string{"template.txt"}, []string{c.judges}, Options{})
			if err == nil || without(dir, err.Error()) != c.want {
				t.Errorf("got\n%v\nwant\n%s", err, c.want)
			}
		})
	}
	dir := folder(t, map[string]string{"settings.json": good})
	_, err := LoadJudgeFolder(dir, []string{"template.md"}, []string{"a"}, Options{})
	if want := "template.md: the name of a template must end with .txt; name a .txt file of the folder"; err == nil || without(dir, err.Error()) != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
