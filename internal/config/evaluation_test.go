package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/ratelimit"
)

func TestLoadWholeEvaluation(t *testing.T) {
	t.Parallel()
	s := load(t, with(two,
		"eval.yaml", `
name: essays
documents: [docs/*.md]
judges:
  - simulator:careful
  - {name: strict, model: local:llama3:8b, overrides: {temperature: 0, max_completion_tokens: 2000, seed: 7, stop: [a, 1.5, true, null]}}
single: {criteria: [factuality, {name: style, description: "How it reads: $x {y} <z>"}], scale: [0, 10], trials: 2, template: single.md}
pairwise: {pairs: sample:0.2, order: random, trials: 3, ties: true, top_n: 0, template: pairwise.md}
json: true
grounding: off
reasoning: off
cache: false
concurrency:
  max_concurrency: 40
  timeout_seconds: 90.5
  lease: 20s
  per_provider:
    local:
      max_concurrency: 32
      rate_limit: {qps: 0.2, burst: 2}
      requests_per_minute: 500
      timeout_seconds: 30
      models: {"llama3:8b": {max_concurrency: 8, timeout_seconds: 10}}
retry: {max_attempts: 4, initial_delay: 2s, max_delay: 30s, jitter: 250ms}
priority: 3
providers: {local: {dialect: chat, base_url: "http://127.0.0.1:8000/v1", api_key_env: LOCAL_KEY, json: object}}
`,
		"single.md", "Score for $5:\n[[documents]]\n", "pairwise.md", "Compare.\n[[documents]]\n"), Options{})

	e := s.Evaluation
	id := string(e.ID())
	wantEvaluation := &eval.Evaluation{
		PlanVersion: eval.PlanVersion, Name: "essays", JSON: eval.JSONTrue, Blind: true,
		Items: []eval.Item{{}},
		Documents: []eval.Document{
			{ID: "a.md", Candidate: "a.md", Hash: eval.TextHash("Alpha."), Bytes: 6},
			{ID: "b.md", Candidate: "b.md", Hash: eval.TextHash("Beta."), Bytes: 5},
		},
		Judges: []eval.Judge{
			{Name: "simulator:careful", Provider: "simulator", Model: "careful"},
			{Name: "strict", Provider: "local", Model: "llama3:8b", Overrides: map[string]any{
				"temperature": 0.0, "max_completion_tokens": 2000.0, "seed": 7.0, "stop": []any{"a", 1.5, true, nil}}},
		},
		Single: &eval.Single{
			Criteria: []eval.Criterion{{Name: "factuality"}, {Name: "style", Description: "How it reads: $x {y} <z>"}},
			Scale:    eval.Scale{Min: 0, Max: 10}, Trials: 2, Template: "Score for $5:\n[[documents]]\n",
		},
		Pairwise: &eval.Pairwise{
			Pairs: eval.Pairs{Mode: eval.PairsSample, Sample: 0.2}, Order: eval.OrderRandom, Trials: 3, Ties: true, Template: "Compare.\n[[documents]]\n",
		},
	}
	if diff := cmp.Diff(wantEvaluation, e); diff != "" {
		t.Errorf("evaluation (-want +got):\n%s", diff)
	}
	wantSettings := record.Settings{
		Priority: 3,
		Retry:    record.Retry{MaxAttempts: 4, InitialDelay: 2 * time.Second, MaxDelay: 30 * time.Second, Jitter: 250 * time.Millisecond},
		Outage:   record.DefaultOutage,
		Timeouts: map[string]time.Duration{"": 90500 * time.Millisecond, "local": 30 * time.Second, "local:llama3:8b": 10 * time.Second},
		Limits: []ratelimit.Limit{
			{Scope: ratelimit.Scope{Provider: "local"}, Kind: ratelimit.Concurrency, Max: 32},
			{Scope: ratelimit.Scope{Provider: "local"}, Kind: ratelimit.Requests, Max: 1, Period: 5 * time.Second, Burst: 2, Jitter: ratelimit.Measured},
			{Scope: ratelimit.Scope{Provider: "local", Model: "llama3:8b"}, Kind: ratelimit.Concurrency, Max: 8},
			{Scope: ratelimit.Scope{Provider: "local"}, Kind: ratelimit.Requests, Max: 500, Period: time.Minute,
				Window: ratelimit.Window{Shape: ratelimit.Sliding, Length: time.Minute}, Jitter: ratelimit.Measured},
			{Scope: ratelimit.Scope{Evaluation: id}, Kind: ratelimit.Concurrency, Max: 40},
		},
		Prices:            map[string]providers.Price{"simulator:careful": {}},
		ConcurrencySource: "file",
	}
	sortLimits := cmp.Transformer("byID", func(all []ratelimit.Limit) map[string]ratelimit.Limit {
		byID := map[string]ratelimit.Limit{}
		for _, l := range all {
			byID[l.ID()] = l
		}
		return byID
	})
	if diff := cmp.Diff(wantSettings, s.Settings, sortLimits); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	wantTexts := map[string]string{eval.TextHash("Alpha."): "Alpha.", eval.TextHash("Beta."): "Beta."}
	if diff := cmp.Diff(wantTexts, s.Texts); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
	wantLocal := catalog.Entry{Name: "local", Dialect: "chat", BaseURL: "http://127.0.0.1:8000/v1", KeyEnv: "LOCAL_KEY", JSON: "object"}
	if diff := cmp.Diff(wantLocal, s.Providers["local"]); diff != "" {
		t.Errorf("provider local (-want +got):\n%s", diff)
	}
	if s.Lease != 20*time.Second {
		t.Errorf("lease: got %v, want 20s", s.Lease)
	}
}

// What is not said has the same identity as its default said aloud.
func TestDefaultsAreTheIdentity(t *testing.T) {
	t.Parallel()
	implicit := load(t, with(two, "eval.yaml", minimal+"single: {criteria: [style]}\n"), Options{})
	explicit := load(t, with(two, "eval.yaml", `
name: eval
documents: [docs/b.md, docs/a.md, "docs/*"]
judges: [{model: simulator:careful, overrides: {}}]
single: {criteria: [{name: style}], scale: [1, 5], trials: 1}
pairwise: {pairs: all, order: both, trials: 1, ties: false, top_n: 0}
json: auto
grounding: off
reasoning: off
cache: false
concurrency: {enabled: true, max_concurrency: 7, abandoned_calls: free}
retry: {max_attempts: 9}
priority: 2
`), Options{})
	if a, b := implicit.Evaluation.ID(), explicit.Evaluation.ID(); a != b {
		t.Errorf("ids differ: %s and %s\n%s", a, b, cmp.Diff(implicit.Evaluation, explicit.Evaluation))
	}
	if got := implicit.Settings.Retry; got != record.DefaultRetry {
		t.Errorf("retry: got %+v, want %+v", got, record.DefaultRetry)
	}
}

func TestOptionsReachTheEvaluation(t *testing.T) {
	t.Parallel()
	files := with(two, "eval.yaml", minimal)
	plain := load(t, files, Options{})
	again := load(t, files, Options{Again: "second", JSON: eval.JSONFalse, Limit: 17})
	if plain.Evaluation.ID() == again.Evaluation.ID() {
		t.Errorf("--again left the id as it was: %s", plain.Evaluation.ID())
	}
	if again.Evaluation.JSON != eval.JSONFalse || again.Settings.Limit != 17 {
		t.Errorf("got json %q and limit %d, want false and 17", again.Evaluation.JSON, again.Settings.Limit)
	}
	if got := load(t, files, Options{Limit: 3}).Evaluation.ID(); got != plain.Evaluation.ID() {
		t.Errorf("--limit changed the id from %s to %s", plain.Evaluation.ID(), got)
	}
}

func TestAnchorsAndMergeKeys(t *testing.T) {
	t.Parallel()
	s := load(t, with(two, "eval.yaml", `
documents: [docs/*.md]
judges: [simulator:careful, openai-chat:gpt-4.1]
pairwise: {}
concurrency:
  per_provider:
    simulator: &all {max_concurrency: 3, requests_per_minute: 60}
    openai-chat:
      <<: *all
      max_concurrency: 2
`), Options{})
	got := map[string]int64{}
	for _, l := range s.Settings.Limits {
		got[l.ID()] = l.Max
	}
	want := map[string]int64{
		"provider/simulator/concurrency": 3, "provider/simulator/requests/1m0s": 60,
		"provider/openai-chat/concurrency": 2, "provider/openai-chat/requests/1m0s": 60,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

// A folder of documents may have other files. What is not submitted is left out by its name, and said on one line.
func TestFolderLeavesOutWhatIsNoDocument(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"a.md": "Alpha.", "b.txt": "Beta.", "c": "Gamma.", "readme.md": "# Mine", "README": "Mine", "grades.csv": "name,grade\na,1\n",
		"evaluation.yaml": "name: x\n", ".hidden": "x", "sub/d.md": "Delta.",
	})
	s, err := loadFolder(dir, []string{"simulator:careful"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, d := range s.Evaluation.Documents {
		ids = append(ids, d.ID)
	}
	if want := []string{"a.md", "b.txt", "c"}; !slices.Equal(ids, want) {
		t.Errorf("documents %v, want %v", ids, want)
	}
	const want = "took 3 files; left out README, evaluation.yaml, grades.csv, readme.md, sub/"
	if len(s.Warnings) != 1 || s.Warnings[0].Message != want {
		t.Errorf("warnings %v, want %q", s.Warnings, want)
	}
}

func TestFolderSubmission(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"a.md": "Alpha.", "b.txt": "Beta.", ".hidden": "x", "sub/c.md": "Gamma."})
	s, err := loadFolder(dir, []string{"simulator:careful"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	same := load(t, map[string]string{"a.md": "Alpha.", "b.txt": "Beta.",
		"eval.yaml": "name: " + filepath.Base(dir) + "\ndocuments: [a.md, b.txt]\njudges: [simulator:careful]\npairwise: {}\n"}, Options{})
	if diff := cmp.Diff(same.Evaluation, s.Evaluation); diff != "" {
		t.Errorf("folder against file (-file +folder):\n%s", diff)
	}
	for _, c := range []struct {
		name   string
		files  map[string]string
		judges []string
		want   string
	}{
		{"no judge", two, nil, "--judge: a folder needs a judge"},
		{"no target", map[string]string{"a": "1", "b": "2"}, []string{"careful"}, `--judge: "careful" does not name a provider`},
		{"unknown provider", map[string]string{"a": "1", "b": "2"}, []string{"simulatr:x"}, "did you mean simulator?"},
		{"one document", map[string]string{"a": "1"}, []string{"simulator:careful"}, "documents to compare in the folder: 1"},
		{"only folders", two, []string{"simulator:careful"}, "documents to compare in the folder: 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := loadFolder(folder(t, c.files), c.judges, Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if _, err := loadFolder(filepath.Join(dir, "nowhere"), []string{"simulator:careful"}, Options{}); err == nil {
		t.Error("a folder that does not exist: got no error")
	}
}
