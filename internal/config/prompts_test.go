package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
)

const promptedFile = `name: p
prompts:
  plain: "{{question}}"
  brief: {system: "You know {{ land }}.", file: brief.md}
models: ["simulator:careful", {name: lax, model: "simulator:careless", overrides: {max_completion_tokens: 9}}]
items: items.jsonl
judges: ["simulator:average"]
pairwise: {pairs: all, order: both}
`

var promptedFiles = map[string]string{
	"eval.yaml": promptedFile, "brief.md": "In one word: {{question}}\n",
	"items.jsonl": `{"item": "a", "question": "Capital?", "land": "Chad", "reference": "N'Djamena"}` + "\n" +
		`{"question": "River?", "land": "Mali"}` + "\n",
}

// promptedAt writes files, and returns the path of eval.yaml.
func promptedAt(t *testing.T, files map[string]string) string {
	t.Helper()
	return filepath.Join(folder(t, files), "eval.yaml")
}

// TestPromptsAreCrossed: each model is asked each prompt about each item, and the judges' part has a document for each
// recorded answer. Its identity depends on what was recorded, not on when.
func TestPromptsAreCrossed(t *testing.T) {
	t.Parallel()
	path := promptedAt(t, promptedFiles)
	s, err := loadEvaluation(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	river := eval.QuestionID("River?")
	var names, rows []string
	for _, one := range s.Evaluation.Prompts.List {
		names = append(names, one.ID)
	}
	for _, row := range s.Evaluation.Prompts.Rows {
		rows = append(rows, s.Texts[row.Hash])
	}
	wantNames := []string{
		"a/plain + simulator:careful", "a/plain + lax", "a/brief + simulator:careful", "a/brief + lax",
		river + "/plain + simulator:careful", river + "/plain + lax", river + "/brief + simulator:careful", river + "/brief + lax",
	}
	wantRows := []string{
		`{"prompt":"Capital?"}`,
		`{"prompt":[{"content":"You know Chad.","role":"system"},{"content":"In one word: Capital?","role":"user"}]}`,
		`{"prompt":"River?"}`,
		`{"prompt":[{"content":"You know Mali.","role":"system"},{"content":"In one word: River?","role":"user"}]}`,
	}
	if diff := cmp.Diff(wantNames, names) + cmp.Diff(wantRows, rows); diff != "" {
		t.Errorf("names and rows: %s", diff)
	}

	planned := s.Judging.Planned.Evaluation
	if len(planned.Documents) != 8 || planned.Answered.Evaluation != s.Evaluation.ID() || planned.Items[0].Reference != "N'Djamena" {
		t.Errorf("planned are %d documents of %s, items %+v", len(planned.Documents), planned.Answered.Evaluation, planned.Items)
	}
	answers := map[string]string{}
	for i, name := range names[1:] {
		answers[name] = strings.Repeat("x", i+1)
	}
	judged, err := s.Judging.Of(answers)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Judging.Of(answers)
	if err != nil || again.Evaluation.ID() != judged.Evaluation.ID() {
		t.Errorf("the same answers give another evaluation, or %v", err)
	}
	e := judged.Evaluation
	if len(e.Documents) != 7 || !slices.Equal(e.Answered.Missing, names[:1]) || len(e.Answered.Candidates) != 4 || !judged.Settings.Cache {
		t.Errorf("judged are %d documents, %+v", len(e.Documents), e.Answered)
	}
	for _, d := range e.Documents {
		if judged.Texts[d.Hash] != answers[d.ID] || d.ID != e.Items[d.Item].ID+"/"+d.Candidate {
			t.Errorf("document %+v has the text %q, want %q", d, judged.Texts[d.Hash], answers[d.ID])
		}
	}
}

// TestCandidatesOfPrompts: candidates are named by what tells them apart.
func TestCandidatesOfPrompts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ prompts, models, want string }{
		"models":  {`"{{question}}"`, `["simulator:a", "simulator:b"]`, "simulator:a,simulator:b"},
		"prompts": {`["{{question}}", "Say: {{question}}"]`, `["simulator:a"]`, "prompt 1,prompt 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := loadEvaluation(promptedAt(t, map[string]string{
				"eval.yaml": "prompts: " + c.prompts + "\nmodels: " + c.models + "\nitems: [\"Why?\", {question: \"How?\", item: h}]\n" +
					"judges: [\"simulator:careful\"]\npairwise: {}\n",
			}), Options{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, one := range s.Judging.Planned.Evaluation.Answered.Candidates {
				got = append(got, one.Name)
			}
			if strings.Join(got, ",") != c.want {
				t.Errorf("candidates %v, want %s", got, c.want)
			}
		})
	}
}

// TestChangedWhileAnswersWereMade: answers are judged by the file that asked for them, or not at all.
func TestChangedWhileAnswersWereMade(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][2]string{
		"a prompt": {"{{question}}", "{{question}}!"}, "a judge": {"simulator:average", "simulator:careful"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := promptedAt(t, promptedFiles)
			s, err := loadEvaluation(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(strings.Replace(promptedFile, change[0], change[1], 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Judging.Of(nil); err == nil || !strings.Contains(err.Error(), "was changed while its answers were made") {
				t.Errorf("got %v, want that the file was changed", err)
			}
		})
	}
}

// TestProblemsOfPrompts: each problem is reported once, at its place and with its fix.
func TestProblemsOfPrompts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change [2]string
		o      Options
		want   string
	}{
		"an unknown variable":   {[2]string{"{{question}}", "{{qestion}}"}, Options{}, `{{qestion}}: item "a" (`},
		"a reference":           {[2]string{"{{question}}", "{{reference}}"}, Options{}, "{{reference}} would show the right answer to the model; remove it"},
		"no models":             {[2]string{"models:", "#"}, Options{}, "eval.yaml:2:1: prompts: models is missing"},
		"no items":              {[2]string{"items:", "#"}, Options{}, "eval.yaml:2:1: prompts: items is missing"},
		"documents, too":        {[2]string{"name: p", "documents: [\"*.md\"]"}, Options{}, "eval.yaml:1:1: documents: a file with prompts judges the answers"},
		"two models of a name":  {[2]string{"name: lax", "name: \"simulator:careful\""}, Options{}, "a second model called simulator:careful"},
		"two texts":             {[2]string{"file: brief.md", "file: brief.md, text: x"}, Options{}, "the prompt has"},
		"an empty prompt":       {[2]string{"\"{{question}}\"", "\" \""}, Options{}, "the prompt is empty; write a text such as"},
		"a wrong limit":         {[2]string{"pairwise:", "concurrency: {max_concurrency: 0}\npairwise:"}, Options{}, "concurrency.max_concurrency: "},
		"an unknown key":        {[2]string{"name:", "nam:"}, Options{}, "nam: unknown key; did you mean name?"},
		"a fleet":               {[2]string{}, Options{ForFleet: true}, "cannot be enqueued"},
		"--limit":               {[2]string{}, Options{Limit: 3}, "--limit: the flag does not apply to a file with prompts"},
		"a question asked once": {[2]string{"items: items.jsonl", "items: [\"Why {{x}}?\", \"Why {{x}}?\"]"}, Options{}, "a second item"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"brief.md": promptedFiles["brief.md"], "items.jsonl": promptedFiles["items.jsonl"]}
			files["eval.yaml"] = strings.Replace(promptedFile, c.change[0], c.change[1], 1)
			_, err := loadEvaluation(promptedAt(t, files), c.o)
			if err == nil || strings.Count(err.Error(), c.want) != 1 && name != "an unknown variable" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got\n%v\nwant once\n%s", err, c.want)
			}
		})
	}
	if _, err := loadEvaluation(promptedAt(t, promptedFiles), Options{ForFleet: true, Waits: true}); err != nil {
		t.Errorf("a fleet for which the command waits: %v", err)
	}
	_, err := loadEvaluation(promptedAt(t, map[string]string{"eval.yaml": "models: [\"simulator:careful\"]\n"}), Options{})
	if err == nil || !strings.Contains(err.Error(), "models answer prompts, and there are none") {
		t.Errorf("models without prompts: got %v", err)
	}
}
