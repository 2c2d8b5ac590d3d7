package config

import (
	"path/filepath"
	"testing"
)

func TestKindOfFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, text string
		want       FileKind
	}{
		"an experiment":                                {"a.jsonl", `{"id": 0, "api": "openai", "model_name": "m", "prompt": "?"}`, ExperimentFile},
		"one under another name":                       {"a.txt", "\ufeff\n\n  {\"prompt\": [\"a\", \"b\"]}\n{}\n", ExperimentFile},
		"one without its prompt":                       {"a.json", `{"api": "openai", "model_name": "m"}`, ExperimentFile},
		"a broken one, by its name":                    {"a.jsonl", `{"api": "openai`, ExperimentFile},
		"an empty one, by its name":                    {"a.csv", "", ExperimentFile},
		"an experiment in CSV":                         {"a.txt", "id,\"prompt\",api,model_name\n", ExperimentFile},
		"OpenAI's Batch":                               {"a.jsonl", `{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {}}`, BatchFile},
		"an evaluation":                                {"a.yaml", "name: x\nprompt,api: 1\n", EvaluationFile},
		"an evaluation in JSON":                        {"a.json", `{"documents": ["a.md"], "judges": []}`, EvaluationFile},
		"an evaluation with the name of an experiment": {"eval.csv.yaml", "# prompt\nname: x\n", EvaluationFile},
		"a list of runs":                               {"a.yaml", "- {file_a: a}\n", RunsFile},
		"a JSON array":                                 {"a.json", `[{"file_a": "a"}]`, RunsFile},
		"runs under their key":                         {"a.json", `{"runs": []}`, RunsFile},
		"a YAML document":                              {"a.yaml", "---\nname: x\n", EvaluationFile},
		"nothing":                                      {"a.yaml", "", EvaluationFile},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, map[string]string{c.file: c.text})
			if got := kindOfFile(filepath.Join(dir, c.file)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	if got := kindOfFile(t.TempDir() + "/none.jsonl"); got != EvaluationFile {
		t.Errorf("a file that is not there: got %s, want it left to who reads evaluations", got)
	}
}
