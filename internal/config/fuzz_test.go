package config

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever an evaluation file contains, reading it ends with a submission or with problems that
// all have a place.
func FuzzLoadEvaluation(f *testing.F) {
	for _, seed := range []string{
		minimal, judged + "documents: {jsonl: docs/a.md}\n", minimal + "pairwise: {pairs: {file: docs/a.md}}\n",
		minimal + "concurrency: {per_provider: {simulator: &a {rate_limit: {qps: 0.2}, models: {m: *a}}}}\n",
		minimal + "x: &x {<<: *x, y: [*x]}\n", minimal + "retry: &x {<<: *x, <<: *x}\n",
		"judges: [{model: simulator:a, overrides: &o {a: *o, b: *o}}]\n", "? a\n: b\n", "- !!int a\n", "\"\\", "{", "a: |\n", "a: 1\n---\n...\nb: 2\n", "\t", "\r", "&a *a",
		"provider: simulator\nmodel: a\nruns:\n- &r {file_a: docs/a.md, file_b: docs/b.md, out: \"x/<run_id>\"}\n- {<<: *r, id: x, overrides: {a: 1}}\n", "- {file_a: docs/a.md}\n",
		"provider: simulator\nmodel: a\ntest: {file_a: docs/a.md, file_b: docs/b.md, out: ..}\nllm_api: {timeout_seconds: 1}\nretries: {jitter: true}\nenforce_web_search: false\n",
		"judges: [{model: simulator:a, overrides: {a: [.nan, .inf, 0x1F, 1e400, -0]}}]\n",
	} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "docs"), 0o755); err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"a.md", "b.md"} {
		if err := os.WriteFile(filepath.Join(dir, "docs", name), []byte(name), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := newDraft("eval.yaml", dir, "eval", Options{})
		if err != nil {
			t.Fatal(err)
		}
		y, root, ok := parseYAML("eval.yaml", text, &s.findings)
		if ok {
			s.read(y, root)
			if submission, err := s.finish(); err == nil && (submission.Evaluation.ID() == "" || len(submission.Texts) == 0) {
				t.Errorf("a submission without id or texts: %+v", submission)
			}
		}
		if !ok && len(s.problems) == 0 {
			t.Error("nothing was read and no problem reported")
		}
		for _, p := range s.problems {
			if p.Message == "" || p.File == "" || p.Path != "" && p.Line == 0 {
				t.Errorf("problem without a place: %+v", p)
			}
		}
	})
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte("{\"id\":\"a\",\"text\":\"x\"}\n{\"item\":1,\"candidate\":2.50,\"text\":\"\"}\nnull\n[]\n{} {}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a.jsonl"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "eval.yaml"), []byte(judged+"documents: {jsonl: a.jsonl}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := loadEvaluation(filepath.Join(dir, "eval.yaml"), Options{})
		if (s == nil) != (err != nil) {
			t.Errorf("got submission %v and error %v, want one of them", s, err)
		}
	})
}

// Whatever an experiment file contains, reading it ends with runs that each have a unique ID
// and a queue, or with problems that have a place.
func FuzzExperiment(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "prompto", "*.jsonl"))
	if err != nil || len(files) == 0 {
		f.Fatalf("seeds: got %q (%v), want some", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text[:min(len(text), 2000)], []byte(`{"gemini": {"default": 30, "gemini-1.5-pro": 20}, "group1": 5}`), false)
	}
	f.Add([]byte(line("")+line(`, "id": "line 1"`)+line(`, "id": {"a": [1e400]}, "group": 1e5`)), []byte(`{"test": {"m": 1}, "test-m": 2}`), false)
	f.Add([]byte("id,prompt,api,model_name,parameters-n,group\n1,\"a\nb\",test,m,007,\n1,?,test,m,True,g\n"), []byte(`{"test": 1e1}`), true)
	f.Fuzz(func(t *testing.T, text, rates []byte, asCSV bool) {
		name := "x.jsonl"
		if asCSV {
			name = "x.csv"
		}
		dir := folder(t, map[string]string{name: string(text), "rates.json": string(rates)})
		s, err := loadExperiment(filepath.Join(dir, name), Options{Experiment: Experiment{Parallel: true, MaxQueriesFile: filepath.Join(dir, "rates.json")}})
		if err != nil {
			var problems Problems
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("error of type %T: %v, want Problems", err, err)
			}
			for _, p := range problems {
				if p.Message == "" || p.File == "" {
					t.Errorf("problem without a place: %+v", p)
				}
			}
			return
		}
		seen := map[string]bool{}
		for _, p := range s.Evaluation.Prompts.List {
			row := s.Evaluation.Prompts.Rows[p.Row]
			if p.ID == "" || seen[p.ID] || s.Settings.Groups[p.Model] == "" || !json.Valid([]byte(s.Texts[row.Hash])) {
				t.Errorf("prompt %+v of row %q in group %q: want an id of its own, JSON and a group", p, s.Texts[row.Hash], s.Settings.Groups[p.Model])
			}
			seen[p.ID] = true
		}
		if s.Evaluation.ID() == "" {
			t.Error("no id")
		}
		agrees(t, s)
	})
}

// Whatever files of answers contain, reading them ends with a submission or with problems that have a place.
func FuzzFilesOfAnswers(f *testing.F) {
	for _, c := range formats(f) {
		for name, text := range c.files {
			f.Add([]byte(text[:min(len(text), 3000)]), strings.TrimPrefix(filepath.Ext(name), "."))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, ext string) {
		switch ext {
		case "json", "jsonl", "csv", "tsv", "eval":
		default:
			ext = "jsonl"
		}
		dir := folder(t, map[string]string{"x/a." + ext: string(text)})
		s, err := loadAnswers([]string{filepath.Join(dir, "x", "a."+ext)}, []string{"simulator:careful"}, Options{})
		if (s == nil) != (err != nil) {
			t.Errorf("got submission %v and error %v, want one of them", s, err)
		}
		var problems Problems
		if err != nil && (!errors.As(err, &problems) || problems[0].Message == "" || problems[0].File == "") {
			t.Errorf("error %v, want problems with a place", err)
		}
	})
}
