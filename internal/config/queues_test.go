package config

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evalfleet/evalfleet/eval/foreign/prompto"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// The scenarios of the source's documentation, with its own files: which queues there
// are, in which order, with how many prompts and at which pace.
func TestQueues(t *testing.T) {
	t.Parallel()
	const plain, groups, mixed = "documentation_example.jsonl", "documentation_example_groups_1.jsonl", "documentation_example_groups_2.jsonl"
	for name, c := range map[string]struct {
		file, rates string
		alone       bool // without --parallel
		want        []prompto.Queue
		warnings    string
	}{
		"no parallel processing": {file: plain, alone: true,
			want: []prompto.Queue{queue("documentation_example", 12, 5)}},
		"no parallel processing, and a map": {file: plain, alone: true, rates: `{"openai": 20}`,
			want:     []prompto.Queue{queue("documentation_example", 12, 5)},
			warnings: "--max-queries-json: ignored: without --parallel all prompts go through one queue; add --parallel"},
		"the same rate for all": {file: plain,
			want: []prompto.Queue{queue("gemini", 4, 5), queue("openai", 4, 5), queue("ollama", 4, 5)}},
		"a rate for each api": {file: plain, rates: `{"openai": 20, "gemini": 10}`,
			want: []prompto.Queue{queue("openai", 4, 20), queue("gemini", 4, 10), queue("ollama", 4, 5)}},
		"a misspelt api": {file: plain, rates: "{\n\t\"openaii\": 20\n}",
			want:     []prompto.Queue{queue("openaii", 0, 20), queue("gemini", 4, 5), queue("openai", 4, 5), queue("ollama", 4, 5)},
			warnings: "rates.json:2:2: openaii: no line has this api or group; did you mean openai?"},
		"a rate for each model, which the text calls by another's name": {file: plain,
			rates: `{"gemini": {"gemini-1.5-pro": 20}, "openai": {"gpt4": 10, "gpt3.5-turbo": 20}}`,
			want: []prompto.Queue{queue("gemini-gemini-1.5-pro", 2, 20), queue("openai-gpt4", 2, 10), queue("openai-gpt3.5-turbo", 2, 20),
				queue("gemini", 2, 5), queue("openai", 0, 5), queue("ollama", 4, 5)}},
		"defaults of apis": {file: plain,
			rates: `{"gemini": {"default": 30, "gemini-1.5-pro": 20}, "openai": {"gpt4": 10, "gpt3.5-turbo": 20}, "ollama": 4}`,
			want: []prompto.Queue{queue("gemini", 2, 30), queue("gemini-gemini-1.5-pro", 2, 20), queue("openai-gpt4", 2, 10), queue("openai-gpt3.5-turbo", 2, 20),
				queue("ollama", 4, 4), queue("openai", 0, 5)}},
		"a default alone": {file: plain, rates: `{"ollama": {"default": 4}}`,
			want: []prompto.Queue{queue("ollama", 4, 4), queue("gemini", 4, 5), queue("openai", 4, 5)}},
		"a misspelt model": {file: plain, rates: `{"openai": {"gpt-4": 10}}`,
			want:     []prompto.Queue{queue("openai-gpt-4", 0, 10), queue("gemini", 4, 5), queue("openai", 4, 5), queue("ollama", 4, 5)},
			warnings: "rates.json:1:13: openai.gpt-4: no line of openai uses this model; did you mean gpt4?"},
		"groups": {file: groups, rates: `{"group1": 5, "group2": 10, "group3": 15}`,
			want: []prompto.Queue{queue("group1", 4, 5), queue("group2", 4, 10), queue("group3", 4, 15)}},
		"models of groups": {file: groups, rates: `{"group1": {"gpt4": 1, "default": 2}, "group3": {"llama3": 3}}`,
			want: []prompto.Queue{queue("group1-gpt4", 1, 1), queue("group1", 3, 2), queue("group3-llama3", 2, 3), queue("group2", 4, 5), queue("group3", 2, 5)}},
		"groups and apis": {file: mixed, rates: `{"group1": 5, "group2": 10}`,
			want: []prompto.Queue{queue("group1", 4, 5), queue("group2", 4, 10), queue("gemini", 4, 5), queue("openai", 4, 5)}},
		"apis with a group in every line": {file: groups, rates: `{"gemini": 7}`,
			want:     []prompto.Queue{queue("gemini", 0, 7), queue("group1", 4, 5), queue("group2", 4, 5), queue("group3", 4, 5)},
			warnings: "rates.json:1:2: gemini: no line has this api or group; known: group1, group2, group3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			most := 5
			o := Options{Experiment: Experiment{Parallel: !c.alone, MaxQueries: &most}}
			dir := folder(t, map[string]string{"rates.json": c.rates})
			if c.rates != "" {
				o.Experiment.MaxQueriesFile = filepath.Join(dir, "rates.json")
			}
			s, err := loadExperiment(filepath.Join("testdata", "prompto", c.file), o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, s.Queues); diff != "" {
				t.Errorf("queues (-want +got):\n%s", diff)
			}
			if got := without(dir, Problems(s.Warnings).Error()); got != c.warnings {
				t.Errorf("warnings: got\n%s\nwant\n%s", got, c.warnings)
			}
			agrees(t, s)
		})
	}
}

func queue(name string, prompts, perMinute int) prompto.Queue {
	return prompto.Queue{Name: name, Prompts: prompts, PerMinute: perMinute}
}

// agrees checks that each prompt's group is the queue that counts it, and that there is
// one limit for each queue with prompts: even, a call at a time.
func agrees(t *testing.T, s *Submission) {
	t.Helper()
	counted := map[string]int{}
	for _, p := range s.Evaluation.Prompts.List {
		counted[s.Settings.Groups[p.Model]]++
	}
	var want []ratelimit.Limit
	for _, q := range s.Queues {
		if counted[q.Name] != q.Prompts {
			t.Errorf("queue %s: %d prompts have its group, want %d", q.Name, counted[q.Name], q.Prompts)
		}
		if q.Prompts > 0 {
			want = append(want, ratelimit.Limit{
				Scope: ratelimit.Scope{Group: q.Name}, Kind: ratelimit.Requests, Max: int64(q.PerMinute), Period: time.Minute, Burst: 1,
			})
		}
	}
	byGroup := cmpopts.SortSlices(func(a, b ratelimit.Limit) bool { return a.Group < b.Group })
	if diff := cmp.Diff(want, s.Settings.Limits, byGroup); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

// Flags say how prompts are sent, and not what is asked.
func TestQueuesAreNoPartOfTheIdentity(t *testing.T) {
	t.Parallel()
	file := filepath.Join("testdata", "prompto", "documentation_example_groups_2.jsonl")
	one, err := loadExperiment(file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	many, err := loadExperiment(file, Options{Experiment: Experiment{Parallel: true}})
	if err != nil {
		t.Fatal(err)
	}
	if one.Evaluation.ID() != many.Evaluation.ID() {
		t.Errorf("with --parallel the evaluation is %s, without it %s: want one", many.Evaluation.ID(), one.Evaluation.ID())
	}
}

func TestMaxQueriesProblems(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ rates, want string }{
		"zero":           {`{"openai": 0}`, "rates.json:1:12: openai: got 0; want a whole number of prompts per minute, at least 1"},
		"negative":       {`{"openai": {"default": -1}}`, "rates.json:1:24: openai.default: got -1; want a whole number of prompts per minute, at least 1"},
		"a fraction":     {"{\"ollama\": 1,\n \"openai\": 1.5}", "rates.json:2:12: openai: got 1.5; want a whole number of prompts per minute, at least 1"},
		"text":           {`{"openai": "5"}`, `rates.json:1:12: openai: got "5"; want a whole number of prompts per minute, at least 1`},
		"true":           {`{"openai": {"a": true}}`, "rates.json:1:18: openai.a: got true; want a whole number of prompts per minute, at least 1"},
		"both":           {`{"openai": 0, "ollama": null}`, "rates.json:1:12: openai: got 0; want a whole number of prompts per minute, at least 1\nrates.json:1:25: ollama: got null; want a whole number of prompts per minute, at least 1"},
		"a list":         {`[1]`, `rates.json:1:1: not a JSON object: got array; for example {"openai": 20, "gemini": {"default": 30, "gemini-1.5-pro": 10}}`},
		"no JSON":        {"{\n\"openai\": 5,}", "rates.json:2:13: not JSON: invalid character '}' looking for beginning of object key string; for example {\"openai\": 20, \"gemini\": {\"default\": 30, \"gemini-1.5-pro\": 10}}"},
		"a key twice":    {"{\"openai\": 1,\n \"openai\": 2}", "rates.json:2:2: openai: key given twice; remove one of them"},
		"two of a queue": {`{"openai": {"gpt4": 1}, "openai-gpt4": 2}`, "rates.json:1:25: openai-gpt4: queue openai-gpt4 has a different rate in line 1; say it once"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, map[string]string{"rates.json": c.rates})
			o := Options{Experiment: Experiment{Parallel: true, MaxQueriesFile: filepath.Join(dir, "rates.json")}}
			_, err := loadExperiment(filepath.Join("testdata", "prompto", "documentation_example.jsonl"), o)
			if err == nil {
				t.Fatal("no problem")
			}
			if got := without(dir, err.Error()); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
