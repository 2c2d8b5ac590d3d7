package config

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A name that a terminal, a page or a file's name would not show as it is written is refused
// where it is written, whatever it names. Letters of all scripts are names.
func TestNamesHideNothing(t *testing.T) {
	t.Parallel()
	const (
		docs   = "documents: [docs/*.md]\n"
		judge  = "judges: [simulator:careful]\n"
		pairs  = "pairwise: {}\n"
		single = "single: {criteria: [style]}\n"
		panel  = "panel: {agents: [{name: a, model: \"simulator:careful\"}], dimensions: [clear]}\n"
	)
	refused := regexp.MustCompile(`printable|does not name a (model|provider)|unknown provider`)
	for what, files := range map[string]struct{ eval, extra string }{
		"name":              {eval: "name: \"NAME\"\n" + docs + judge + pairs},
		"judge":             {eval: docs + "judges: [{name: \"NAME\", model: \"simulator:careful\"}]\n" + pairs},
		"model of a judge":  {eval: docs + "judges: [\"simulator:NAME\"]\n" + pairs},
		"criterion":         {eval: docs + judge + "single: {criteria: [\"NAME\"]}\n"},
		"criterion, named":  {eval: docs + judge + "single: {criteria: [{name: \"NAME\", description: d}]}\n"},
		"agent":             {eval: docs + strings.Replace(panel, "name: a", "name: \"NAME\"", 1)},
		"dimension":         {eval: docs + strings.Replace(panel, "clear", "\"NAME\"", 1)},
		"dimension's name":  {eval: docs + strings.Replace(panel, "clear", "{id: clear, name: \"NAME\"}", 1)},
		"provider":          {eval: docs + "judges: [\"NAME:m\"]\n" + pairs + "providers: {\"NAME\": {base_url: \"http://127.0.0.1:1/v1\"}}\n"},
		"group":             {eval: docs + judge + pairs + "concurrency: {groups: {\"NAME\": {max_concurrency: 2}}}\n"},
		"model of prices":   {eval: docs + judge + pairs + "prices: {\"simulator:NAME\": {input: 1, output: 1}}\n"},
		"model to fall to":  {eval: docs + judge + pairs + "fallback: {models: [\"simulator:NAME\"]}\n"},
		"model for JSON":    {eval: docs + judge + pairs + "jsonify: {provider: simulator, model: \"NAME\"}\n"},
		"model of runs":     {eval: "provider: simulator\nmodel: \"NAME\"\nruns: [{file_a: docs/a.md, file_b: docs/b.md}]\n"},
		"run":               {eval: "provider: simulator\nmodel: m\nruns: [{id: \"NAME\", file_a: docs/a.md, file_b: docs/b.md}]\n"},
		"out":               {eval: "provider: simulator\nmodel: m\nruns: [{out: \"NAME.md\", file_a: docs/a.md, file_b: docs/b.md}]\n"},
		"document's id":     {"documents: {jsonl: x.jsonl}\n" + judge + single, `{"id": "NAME", "text": "t"}`},
		"item":              {"documents: {jsonl: x.jsonl}\n" + judge + single, `{"item": "NAME", "candidate": "c", "text": "t"}`},
		"candidate":         {"documents: {jsonl: x.jsonl}\n" + judge + single, `{"item": "i", "candidate": "NAME", "text": "t"}`},
		"annotator":         {docs + judge + pairs + "votes: x.jsonl\n", `{"item": "", "candidate_a": "a.md", "candidate_b": "b.md", "winner": "1", "annotator": "NAME"}`},
		"annotator, column": {docs + judge + pairs + "votes: x.jsonl\n", `{"item": "", "candidate_a": "a.md", "candidate_b": "b.md", "NAME": "1"}`},
	} {
		problems := func(name string) string {
			t.Helper()
			dir := folder(t, with(two, "eval.yaml", strings.ReplaceAll(files.eval, "NAME", name), "x.jsonl", strings.ReplaceAll(files.extra, "NAME", name)))
			_, err := loadEvaluation(filepath.Join(dir, "eval.yaml"), Options{})
			return fmt.Sprint(err)
		}
		for _, hidden := range []string{`\u001b[31m`, `\u202e`, `\u200b`, `\ufeff`, `\u2028`, `\u0085`, `\u2066`, `\n`} {
			if got := problems("x" + hidden + "y"); !refused.MatchString(got) {
				t.Errorf("%s with %s: got %q, want a refusal", what, hidden, got)
			}
		}
		if got := problems("日本\u3000שלום é\u00a0👩\u200d👧 می\u200cخواهم"); strings.Contains(got, "printable") || strings.Contains(got, "does not name") {
			t.Errorf("%s in other scripts: got %q", what, got)
		}
	}
}
