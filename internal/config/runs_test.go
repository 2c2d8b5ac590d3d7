package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// pairOfFiles is what runs read.
var pairOfFiles = map[string]string{"a.md": "Sum it up.", "b.md": "It rained."}

// of is a file of the tests, with what its runs read beside it.
func of(t *testing.T, name string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"eval.yaml": string(text),
		"test/input/sample_utf8.txt": "Sum it up.", "test/prompts/standard_prompt.txt": "It rained."}
}

// Files of the tool that file runs come from load unchanged.
func TestFilesOfFileRuns(t *testing.T) {
	t.Parallel()
	files := []eval.Document{
		{ID: "test/input/sample_utf8.txt", Candidate: "test/input/sample_utf8.txt", Hash: eval.TextHash("Sum it up."), Bytes: 10},
		{ID: "test/prompts/standard_prompt.txt", Candidate: "test/prompts/standard_prompt.txt", Hash: eval.TextHash("It rained."), Bytes: 10},
	}
	gemini := eval.Judge{Name: "google:gemini-1.5-flash", Provider: "google", Model: "gemini-1.5-flash"}
	models := []eval.Judge{{Name: "openai:gpt-5-mini", Provider: "openai", Model: "gpt-5-mini"}, gemini}
	blockRetry := record.Retry{MaxAttempts: 5, InitialDelay: 500 * time.Millisecond, MaxDelay: time.Minute, FullJitter: true}
	limits := map[string]int64{
		"provider/openai/concurrency": 2, "provider/openai/requests/1s": 1,
		"provider/google/concurrency": 4, "provider/google/requests/1s": 5, "evaluation": 4,
	}
	for name, want := range map[string]struct {
		runs     eval.Runs
		settings record.Settings
		limits   map[string]int64
		warnings int
	}{
		"file-run.yaml": {
			runs: eval.Runs{Models: []eval.Judge{gemini}, Files: files, List: []eval.FileRun{{ID: "run1", FileB: 1}}},
			settings: record.Settings{Outage: record.DefaultOutage, Retry: record.DefaultRetry, Timeouts: map[string]time.Duration{}, ConcurrencySource: "default",
				Outs: map[string]string{"run1": "test/output/<file_b_stem>.<model_name>.fpf.response.md"}},
			limits: map[string]int64{"evaluation": DefaultConcurrency},
		},
		"file-runs.yaml": {
			runs: eval.Runs{Models: models, Files: files,
				List: []eval.FileRun{{ID: "g5m-doc1", FileB: 1}, {ID: "g15-doc1", Model: 1, FileB: 1}}},
			settings: record.Settings{Outage: record.DefaultOutage, Retry: blockRetry, Timeouts: map[string]time.Duration{}, ConcurrencySource: "file"},
			limits:   limits,
		},
		"file-runs-long.yaml": {
			runs: eval.Runs{Models: models, Files: files,
				List: []eval.FileRun{{ID: "run1", FileB: 1}, {ID: "run2", Model: 1, FileB: 1}}},
			settings: record.Settings{Outage: record.DefaultOutage, Retry: blockRetry, Timeouts: map[string]time.Duration{"": 2 * time.Hour}, ConcurrencySource: "file",
				Outs: map[string]string{"run1": "test/output/<file_b_stem>.<model_name>.<run_id>.fpf.response.md"}},
			limits:   limits,
			warnings: 2, // of openaidp, which no run asks, and of the older Gemini, which does not reason
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := load(t, of(t, name), Options{})
			wantEvaluation := &eval.Evaluation{
				PlanVersion: eval.PlanVersion, Name: "eval", Items: []eval.Item{{}}, Documents: []eval.Document{}, Runs: &want.runs,
				JSON: eval.JSONFalse, Grounding: eval.Required, Reasoning: eval.Required,
			}
			if diff := cmp.Diff(wantEvaluation, s.Evaluation); diff != "" {
				t.Errorf("evaluation (-want +got):\n%s", diff)
			}
			limits := map[string]int64{}
			for _, l := range s.Settings.Limits {
				id := l.ID()
				if l.Evaluation != "" {
					id = "evaluation"
				}
				limits[id] = l.Max
			}
			if diff := cmp.Diff(want.limits, limits); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
			got := s.Settings
			want.settings.Priority, got.Limits, got.Prices, got.PricesAsOf = 1, nil, nil, ""
			want.settings.Unreasoning = []string{gemini.Target()}
			if diff := cmp.Diff(want.settings, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			if len(s.Warnings) != max(want.warnings, 1) {
				t.Errorf("warnings: got\n%v\nwant %d", Problems(s.Warnings), max(want.warnings, 1))
			}
			wantTexts := map[string]string{eval.TextHash("Sum it up."): "Sum it up.", eval.TextHash("It rained."): "It rained."}
			if diff := cmp.Diff(wantTexts, s.Texts); diff != "" {
				t.Errorf("texts (-want +got):\n%s", diff)
			}
		})
	}
}

// Models and files are stored once, whatever the number of runs and the way in which a path is
// written; runs without an ID are named after their position.
func TestListOfRuns(t *testing.T) {
	t.Parallel()
	s := load(t, with(pairOfFiles, "sub/c.md", "It snowed.", "eval.yaml", `
provider: gemini
model: gemini-2.5-flash
runs:
  - {file_a: a.md, file_b: b.md}
  - {id: "17", model: gemini-2.5-pro, file_a: ./a.md, file_b: sub/../b.md}
  - {provider: openai, model: "gpt-5:x", file_a: a.md, file_b: sub/c.md, overrides: {reasoning_effort: low, seed: 1}}
  - {id: last, file_a: b.md, file_b: b.md, overrides: {}, out: "out/<run_id>.md"}
`), Options{})
	want := &eval.Runs{
		Models: []eval.Judge{
			{Name: "google:gemini-2.5-flash", Provider: "google", Model: "gemini-2.5-flash"},
			{Name: "google:gemini-2.5-pro", Provider: "google", Model: "gemini-2.5-pro"},
			{Name: `openai:gpt-5:x {"reasoning_effort":"low","seed":1}`, Provider: "openai", Model: "gpt-5:x",
				Overrides: map[string]any{"reasoning_effort": "low", "seed": 1.0}},
		},
		Files: []eval.Document{
			{ID: "a.md", Candidate: "a.md", Hash: eval.TextHash("Sum it up."), Bytes: 10},
			{ID: "b.md", Candidate: "b.md", Hash: eval.TextHash("It rained."), Bytes: 10},
			{ID: "sub/c.md", Candidate: "sub/c.md", Hash: eval.TextHash("It snowed."), Bytes: 10},
		},
		List: []eval.FileRun{
			{ID: "run1", FileB: 1}, {ID: "17", Model: 1, FileB: 1}, {ID: "run3", Model: 2, FileB: 2}, {ID: "last", FileA: 1, FileB: 1},
		},
	}
	if diff := cmp.Diff(want, s.Evaluation.Runs); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"last": "out/<run_id>.md"}, s.Settings.Outs); diff != "" {
		t.Errorf("outs (-want +got):\n%s", diff)
	}
}

// Where a run's answer is written is no part of what is asked.
func TestOutIsNoIdentity(t *testing.T) {
	t.Parallel()
	const run = "provider: simulator\nmodel: careful\ntest: {file_a: a.md, file_b: b.md"
	plain := load(t, with(pairOfFiles, "eval.yaml", run+"}\n"), Options{})
	out := load(t, with(pairOfFiles, "eval.yaml", run+", out: x.md}\nbudget: {usd: 1}\nprices: {\"simulator:*\": {input: 1, output: 1}}\n"), Options{})
	if a, b := plain.Evaluation.ID(), out.Evaluation.ID(); a != b {
		t.Errorf("ids differ: %s and %s", a, b)
	}
}

func TestRunsBesideJudgedKinds(t *testing.T) {
	t.Parallel()
	const runs = "runs: [{provider: simulator, model: careful, file_a: a.md, file_b: b.md}]\n"
	for name, test := range map[string]struct {
		more         string
		judges, runs bool // must show evidence
		json         eval.JSONMode
	}{
		"nothing said": {"", false, true, eval.JSONAuto},
		"off":          {"grounding: off\nreasoning: off\n", false, false, eval.JSONAuto},
		"required":     {"grounding: required\nreasoning: required\njson: true\n", true, true, eval.JSONTrue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := load(t, with(pairOfFiles, "docs/a.md", "A", "docs/b.md", "B", "eval.yaml", minimal+runs+test.more), Options{}).Evaluation
			for kind, want := range map[eval.Kind]bool{eval.KindPairwise: test.judges, eval.KindRuns: test.runs} {
				if e.Grounded(kind) != want || e.Reasoned(kind) != want {
					t.Errorf("%s must show evidence: got %t and %t, want %t", kind, e.Grounded(kind), e.Reasoned(kind), want)
				}
			}
			if e.JSON != test.json || len(e.Documents) != 2 || len(e.Runs.List) != 1 {
				t.Errorf("got json %s, %d documents, %d runs; want %s, 2, 1", e.JSON, len(e.Documents), len(e.Runs.List), test.json)
			}
		})
	}
}

// Answers of listed runs are prose unless the file or the command line asks for JSON.
func TestJSONOfRuns(t *testing.T) {
	t.Parallel()
	const runs = "runs: [{provider: simulator, model: careful, file_a: a.md, file_b: b.md}]\n"
	ids := map[eval.JSONMode]eval.ID{}
	for _, test := range []struct {
		file string
		flag eval.JSONMode
		want eval.JSONMode
	}{
		{"", "", eval.JSONFalse},
		{"json: false\n", "", eval.JSONFalse},
		{"json: true\n", eval.JSONFalse, eval.JSONFalse},
		{"json: auto\n", "", eval.JSONAuto},
		{"", eval.JSONAuto, eval.JSONAuto},
		{"json: true\n", "", eval.JSONTrue},
		{"json: false\n", eval.JSONTrue, eval.JSONTrue},
	} {
		e := load(t, with(pairOfFiles, "eval.yaml", runs+test.file), Options{JSON: test.flag}).Evaluation
		if got := e.JSONOf(eval.KindRuns); got != test.want {
			t.Errorf("%q and --json-mode %q: got %s, want %s", test.file, test.flag, got, test.want)
		}
		if id, known := ids[test.want]; known && id != e.ID() {
			t.Errorf("%q and --json-mode %q: another evaluation than with %s said otherwise", test.file, test.flag, test.want)
		}
		ids[test.want] = e.ID()
	}
	if ids[eval.JSONAuto] == ids[eval.JSONFalse] || ids[eval.JSONTrue] == ids[eval.JSONAuto] {
		t.Errorf("modes share an evaluation: %v", ids)
	}
}

func TestEnabled(t *testing.T) {
	t.Parallel()
	const runs = "runs: [{provider: simulator, model: careful, file_a: a.md, file_b: b.md}]\n"
	for _, test := range []struct {
		file   string
		batch  bool
		want   int64
		source string
	}{
		{"concurrency: {enabled: false, max_concurrency: 7}\n", false, 1, "file"},
		{"concurrency: {enabled: false, max_concurrency: 7}\n", true, 7, "file"},
		{"concurrency: {enabled: false}\n", true, DefaultConcurrency, "default"},
		{"concurrency: {enabled: true, max_concurrency: 7}\n", false, 7, "file"},
		{"llm_api: {max_concurrent_llm_calls: 9}\n", false, 9, "file"},
		{"llm_api: {max_concurrent_llm_calls: 9}\nconcurrency: {enabled: false}\n", false, 1, "file"},
	} {
		s := load(t, with(pairOfFiles, "eval.yaml", runs+test.file), Options{Batch: test.batch})
		if len(s.Settings.Limits) != 1 || s.Settings.Limits[0].Max != test.want || s.Settings.ConcurrencySource != test.source {
			t.Errorf("%q, --batch %t: got %v (%s), want %d (%s)", test.file, test.batch, s.Settings.Limits, s.Settings.ConcurrencySource, test.want, test.source)
		}
	}
	fleet := folder(t, map[string]string{"fleet.yaml": "concurrency: {enabled: false, max_concurrency: 7}\n"})
	f, err := LoadFleet(filepath.Join(fleet, "fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := []ratelimit.Limit{{Kind: ratelimit.Concurrency, Max: 1}}
	if diff := cmp.Diff(want, f.Limits); diff != "" {
		t.Errorf("limits of a fleet that is not enabled (-want +got):\n%s", diff)
	}
}

func TestOlderNames(t *testing.T) {
	t.Parallel()
	const runs = "runs: [{provider: simulator, model: careful, file_a: a.md, file_b: b.md}]\n"
	s := load(t, with(pairOfFiles, "eval.yaml", runs+`
enforce_web_search: false
llm_api: {max_concurrent_llm_calls: 3, timeout_seconds: 90}
retries: {attempts: 7, base_delay_seconds: 1.5, jitter: 0.25}
`), Options{})
	if e := s.Evaluation; e.Grounding != eval.Off || e.Reasoning != eval.Required {
		t.Errorf("got grounding %q and reasoning %q, want off and required", e.Grounding, e.Reasoning)
	}
	wantRetry := record.Retry{MaxAttempts: 7, InitialDelay: 1500 * time.Millisecond, MaxDelay: time.Minute, Jitter: 250 * time.Millisecond}
	if diff := cmp.Diff(wantRetry, s.Settings.Retry); diff != "" {
		t.Errorf("retry (-want +got):\n%s", diff)
	}
	if got := s.Settings.Timeouts; got[""] != 90*time.Second {
		t.Errorf("timeouts: got %v, want 90s", got)
	}
	for word, full := range map[string]bool{"true": true, "full": true, "false": false, "none": false} {
		retry := load(t, with(pairOfFiles, "eval.yaml", runs+"enforce_web_search: true\nretries: {jitter: "+word+"}\n"), Options{}).Settings.Retry
		if retry.FullJitter != full || retry.Jitter != 0 {
			t.Errorf("jitter: %s: got %+v, want full %t and nothing else", word, retry, full)
		}
	}
}

// listedFrom loads a list of runs outside an evaluation file, whose text may be empty for none.
// Files are below the returned folder.
func listedFrom(t *testing.T, text string, files map[string]string, o Options) (*Submission, string, error) {
	t.Helper()
	dir := folder(t, files)
	in := func(path *string) {
		if *path != "" {
			*path = filepath.Join(dir, *path)
		}
	}
	for _, path := range []*string{&o.Listed.File, &o.Listed.FileA, &o.Listed.FileB, &o.Listed.Out} {
		in(path)
	}
	if text == "" {
		s, err := loadRuns(o)
		return s, dir, err
	}
	path := filepath.Join(dir, "eval.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := loadEvaluation(path, o)
	return s, dir, err
}

func TestRunsListedByFlags(t *testing.T) {
	t.Parallel()
	fleetDir := folder(t, map[string]string{"fleet.yaml": "provider: google\nmodel: gemini-2.5-pro\n"})
	fleet, err := LoadFleet(filepath.Join(fleetDir, "fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	absolute := filepath.ToSlash(folder(t, pairOfFiles))
	json := `[{"id": "r1", "provider": "openai", "model": "gpt-5-mini", "file_a": "` + absolute + `/a.md", "file_b": "` + absolute + `/b.md", "overrides": {"seed": 3}},` +
		"\n\t{\"id\": \"r\\u00e92\", \"file_a\": \"" + absolute + "\\/b.md\", \"file_b\": \"" + absolute + "/b.md\"}\n]\n"
	pair := Listed{FileA: "a.md", FileB: "b.md"}
	for name, test := range map[string]struct {
		text  string
		files map[string]string
		o     Options
		name  string
		want  []string // "id target file_a file_b"
	}{
		"a pair":                      {"", pairOfFiles, Options{Listed: pair, Provider: "openai", Model: "gpt-5"}, "b", []string{"run1 openai:gpt-5 a.md b.md"}},
		"a pair, by the fleet's file": {"", pairOfFiles, Options{Listed: pair, Fleet: fleet}, "b", []string{"run1 google:gemini-2.5-pro a.md b.md"}},
		"a pair, by the evaluation file": {"provider: openai\nmodel: gpt-5\n", pairOfFiles, Options{Listed: pair, Fleet: fleet}, "eval",
			[]string{"run1 openai:gpt-5 a.md b.md"}},
		"a pair for the file's own": {"provider: openai\nmodel: gpt-5\ntest: {file_a: b.md, file_b: b.md, out: x}\n", pairOfFiles,
			Options{Listed: pair, Model: "gpt-5-nano"}, "eval", []string{"run1 openai:gpt-5-nano a.md b.md"}},
		"a pair beside an empty list": {"provider: openai\nmodel: gpt-5\nruns: []\n", pairOfFiles, Options{Listed: pair}, "eval",
			[]string{"run1 openai:gpt-5 a.md b.md"}},
		"an empty list beside the file's own": {"provider: openai\nmodel: gpt-5\nruns: []\ntest: {file_a: b.md, file_b: b.md}\n", pairOfFiles, Options{}, "eval",
			[]string{"run1 openai:gpt-5 b.md b.md"}},
		"a file": {"", with(pairOfFiles, "runs.yaml", "runs: [{file_a: a.md, file_b: b.md}]\n"), Options{Listed: Listed{File: "runs.yaml"}, Fleet: fleet}, "runs",
			[]string{"run1 google:gemini-2.5-pro a.md b.md"}},
		"a file that is a list": {"", with(pairOfFiles, "runs.yaml", "- {id: x, file_a: a.md, file_b: b.md}\n"), Options{Listed: Listed{File: "runs.yaml"}, Fleet: fleet}, "runs",
			[]string{"x google:gemini-2.5-pro a.md b.md"}},
		"a file beside another": {"name: n\nprovider: openai\nmodel: gpt-5\nconcurrency: {enabled: false}\n",
			with(pairOfFiles, "runs.yaml", "model: gpt-5-mini\nruns:\n- {file_a: a.md, file_b: b.md}\n- {file_a: b.md, file_b: a.md}\n"),
			Options{Listed: Listed{File: "runs.yaml"}}, "n", []string{"run1 openai:gpt-5-mini a.md b.md", "run2 openai:gpt-5-mini b.md a.md"}},
		"standard input": {"", pairOfFiles, Options{Listed: Listed{JSON: strings.NewReader(json)}, Fleet: fleet}, "runs",
			[]string{"r1 openai:gpt-5-mini " + absolute + "/a.md " + absolute + "/b.md", "ré2 google:gemini-2.5-pro " + absolute + "/b.md " + absolute + "/b.md"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir, err := listedFrom(t, test.text, test.files, test.o)
			if err != nil {
				t.Fatal(err)
			}
			e := s.Evaluation
			var got []string
			for _, run := range e.Runs.List {
				line := strings.Join([]string{run.ID, e.Runs.Models[run.Model].Target(), e.Runs.Files[run.FileA].ID, e.Runs.Files[run.FileB].ID}, " ")
				got = append(got, strings.ReplaceAll(line, filepath.ToSlash(dir)+"/", ""))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("runs (-want +got):\n%s", diff)
			}
			if e.Name != test.name || len(s.Settings.Outs) > 0 || s.Out != "" {
				t.Errorf("name %q, outs %v and %q; want name %q and none", e.Name, s.Settings.Outs, s.Out, test.name)
			}
		})
	}
}

func TestOutOfAPair(t *testing.T) {
	t.Parallel()
	o := Options{Listed: Listed{FileA: "a.md", FileB: "b.md", Out: "../x/<model_name>.md"}, Provider: "openrouter", Model: "meta/llama:3"}
	s, dir, err := listedFrom(t, "", pairOfFiles, o)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(filepath.Dir(dir), "x", "meta_llama_3.md"); s.Out != want || len(s.Settings.Outs) > 0 {
		t.Errorf("got %q and outs %v, want %q and none", s.Out, s.Settings.Outs, want)
	}
}
