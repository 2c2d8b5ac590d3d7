package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// simulated is a provider of this test's own, and a fleet's file by which OpenAI's
// and Google's models are asked there.
func simulated(t *testing.T, settings simulator.Config) (server *simulator.Server, fleetFile string, keys map[string]string) {
	t.Helper()
	settings.Models = map[string]simulator.Model{"gpt-5-mini": {}, "gemini-1.5-flash": {}}
	server, err := simulator.Listen("127.0.0.1:0", settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	fleetFile = fmt.Sprintf("providers:\n  simulator: {base_url: \"%[1]s/v1\"}\n  openai: {base_url: \"%[1]s/v1\"}\n"+
		"  google: {base_url: %[1]q}\n", server.URL)
	return server, fleetFile, map[string]string{"OPENAI_API_KEY": "planted-openai", "GEMINI_API_KEY": "planted-google"}
}

// runFiles are what listed runs read.
func runFiles(more ...string) map[string]string {
	return with(map[string]string{"a.md": "Sum it up.\n", "b.md": "It rained in $HOME.\n"}, more...)
}

// answersIn are the files that stdout names, one a line; each must hold an
// answer of the simulator's.
func answersIn(t *testing.T, dir, stdout string) []string {
	t.Helper()
	paths := strings.Fields(stdout)
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(text), "This is a simulated answer.") {
			t.Errorf("%s: got %q, %v; want an answer", path, text, err)
		}
	}
	return paths
}

// Files of the tool that file runs come from run unchanged, and keys derived by evalfleet do
// not stay in the environment.
func TestFilesOfFileRunsUnchanged(t *testing.T) {
	before := os.Environ()
	server, fleetFile, keys := simulated(t, simulator.Config{})
	for _, test := range []struct {
		file  string
		limit int // of calls in flight
		want  []string
	}{
		{"file-run.yaml", 5, []string{"test/output/standard_prompt.gemini-1.5-flash.fpf.response.md"}},
		{"file-runs.yaml", 4, []string{
			"out/standard_prompt.gpt-5-mini.g5m-doc1.fpf.response.md", "out/standard_prompt.gemini-1.5-flash.g15-doc1.fpf.response.md"}},
		{"file-runs-long.yaml", 4, []string{
			"test/output/standard_prompt.gpt-5-mini.run1.fpf.response.md", "out/standard_prompt.gemini-1.5-flash.run2.fpf.response.md"}},
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "internal", "config", "testdata", test.file))
		if err != nil {
			t.Fatal(err)
		}
		dir := tree(t, map[string]string{"fpf_config.yaml": string(text), "fleet.yaml": fleetFile,
			"test/input/sample_utf8.txt": "Sum it up.", "test/prompts/standard_prompt.txt": "It rained."})
		t.Run(test.file, func(t *testing.T) {
			t.Chdir(dir)
			code, stdout, stderr := evalfleet(t, keys, "validate", "fpf_config.yaml", "--config", "fleet.yaml")
			if want := fmt.Sprintf("At most %d calls in flight", test.limit); code != 0 || !strings.Contains(stdout, want) {
				t.Errorf("validate ended with %d and %q:\n%swant 0 and %q", code, stdout, stderr, want)
			}
			code, stdout, stderr = evalfleet(t, keys, "run", "fpf_config.yaml", "--config", "fleet.yaml", "--out-dir", "out")
			if code != 0 {
				t.Fatalf("run ended with %d:\n%s", code, stderr)
			}
			if diff := cmp.Diff(test.want, answersIn(t, dir, stdout)); diff != "" {
				t.Errorf("stdout (-want +got):\n%s", diff)
			}
		})
	}
	if got := server.Stats().All.Answered; got != 5 {
		t.Errorf("the provider answered %d calls, want 5", got)
	}
	if diff := cmp.Diff(before, os.Environ()); diff != "" {
		t.Errorf("environment (-before +after):\n%s", diff)
	}
}

// Runs come from wherever they are listed, and ask the models that the command line, the file
// and the fleet's file name, in this order.
func TestRunsListedOutsideOfTheFile(t *testing.T) {
	t.Parallel()
	_, fleetFile, keys := simulated(t, simulator.Config{})
	for name, test := range map[string]struct {
		args  string
		stdin string
		files map[string]string
		want  []string // of the dry run: who is asked, and about which files
	}{
		"a pair": {"--file-a DIR/a.md --file-b DIR/b.md --provider simulator --model average", "", nil,
			[]string{"run1: simulator:average: DIR/a.md, then DIR/b.md"}},
		"a pair, by the fleet's file": {"--file-a DIR/a.md --file-b DIR/b.md --config DIR/asks.yaml", "",
			map[string]string{"asks.yaml": fleetFile + "provider: openai\nmodel: gpt-5-mini\n"}, []string{"run1: openai:gpt-5-mini: DIR/a.md, then DIR/b.md"}},
		"a pair over a file": {"DIR/eval.yaml --file-a DIR/b.md --file-b DIR/a.md", "",
			map[string]string{"eval.yaml": "provider: simulator\nmodel: careful\ntest: {file_a: a.md, file_b: b.md}\n"}, []string{"run1: simulator:careful: DIR/b.md, then DIR/a.md"}},
		"a file of runs": {"--runs-config DIR/runs.yaml --model average", "",
			map[string]string{"runs.yaml": "provider: simulator\nmodel: careful\nruns: [{id: x, file_a: a.md, file_b: b.md}, {file_a: b.md, file_b: b.md}]\n"},
			[]string{"x: simulator:average: a.md, then b.md", "run2: simulator:average: b.md, then b.md"}},
		"a file of runs beside settings": {"DIR/eval.yaml --runs-config DIR/runs.yaml", "",
			map[string]string{"eval.yaml": "provider: simulator\nmodel: careful\ngrounding: off\n", "runs.yaml": "[{file_a: a.md, file_b: b.md}]\n"},
			[]string{"run1: simulator:careful: a.md, then b.md"}},
		"standard input": {"--runs-stdin", `[{"id": "r\/1", "provider": "simulator", "model": "careful", "file_a": "DIR/a.md", "file_b": "DIR/b.md"}]`, nil,
			[]string{"r/1: simulator:careful: DIR/a.md, then DIR/b.md"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := tree(t, runFiles("fleet.yaml", fleetFile))
			for name, text := range test.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			in := func(s string) string { return strings.ReplaceAll(s, "DIR", dir) }
			for _, command := range []string{"run", "enqueue"} {
				args := append([]string{command, "--dry-run=9"}, strings.Fields(in(test.args))...)
				var stdout, stderr bytes.Buffer
				lookup := func(name string) (string, bool) { value, ok := keys[name]; return value, ok }
				if code := Main(t.Context(), nil, args, lookup, strings.NewReader(in(test.stdin)), &stdout, &stderr); code != 0 {
					t.Fatalf("%s ended with %d:\n%s", command, code, stderr.String())
				}
				if diff := cmp.Diff(test.want, dryRuns(stdout.String(), dir)); diff != "" {
					t.Errorf("%s: runs (-want +got):\n%s", command, diff)
				}
			}
		})
	}
}

// dryRuns are the runs of a dry run, by id, model and files.
func dryRuns(stdout, dir string) []string {
	var runs []string
	for block := range strings.SplitSeq(stdout, "=== run 0.") {
		lines := strings.SplitN(block, "\n", 4)
		if len(lines) < 4 {
			continue
		}
		_, id, _ := strings.Cut(lines[0], ": ")
		run := id + ": " + strings.TrimPrefix(lines[1], "model: ") + ": " + strings.TrimPrefix(lines[2], "documents: ")
		runs = append(runs, strings.ReplaceAll(run, dir, "DIR"))
	}
	return runs
}

// What is sent is what the files hold, and nothing of it is expanded.
func TestDryRunOfListedRuns(t *testing.T) {
	t.Parallel()
	dir := tree(t, runFiles("eval.yaml", asksKeys+"runs: [{file_a: a.md, file_b: b.md, overrides: {seed: 7}}]\n"))
	code, stdout, stderr := evalfleet(t, map[string]string{"HOME": "/nowhere"}, "run", filepath.Join(dir, "eval.yaml"), "--dry-run")
	const want = "=== run 0.0: run1\nmodel: simulator:careful\noverrides: {\"seed\":7}\ndocuments: a.md, then b.md\n\n--- user\nSum it up.\n\n\nIt rained in $HOME.\n\n"
	if code != 0 || stdout != want {
		t.Errorf("ended with %d and\n%s\nwant\n%s\nstderr:\n%s", code, stdout, want, stderr)
	}
}

// enabled: false is one call at a time, and --batch takes that back.
func TestEnabledAndBatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args        []string
		least, most int
	}{
		{nil, 1, 1}, {[]string{"--batch"}, 2, 3},
	} {
		server, fleetFile, keys := simulated(t, simulator.Config{Behaviour: simulator.Behaviour{Latency: simulator.Span{Min: 100 * time.Millisecond, Max: 100 * time.Millisecond}}})
		calls := newTurnstile(t, server.URL)
		dir := tree(t, runFiles("fleet.yaml", strings.ReplaceAll(fleetFile, server.URL, calls.URL), "eval.yaml", asksKeys+"concurrency: {enabled: false, max_concurrency: 3}\n"+
			"runs: ["+strings.Repeat("{file_a: a.md, file_b: b.md}, ", 6)+"]\n"))
		args := append([]string{"run", filepath.Join(dir, "eval.yaml"), "--config", filepath.Join(dir, "fleet.yaml"), "--out-dir", filepath.Join(dir, "out")}, test.args...)
		var code int
		var stdout, stderr string
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			code, stdout, stderr = evalfleet(t, keys, args...)
		}()
		testrun.Eventually(t, fmt.Sprintf("%v: %d calls are in flight at once", test.args, test.least), func() bool { return int(calls.held.Load()) >= test.least })
		calls.open()
		<-ended
		if code != 0 {
			t.Fatalf("run ended with %d:\n%s", code, stderr)
		}
		if got := server.Stats().All; got.MaxInFlight > test.most || got.Answered != 6 {
			t.Errorf("%v: %d calls, %d in flight at most; want 6, and at most %d", test.args, got.Answered, got.MaxInFlight, test.most)
		}
		if paths := answersIn(t, dir, stdout); len(paths) != 6 || len(slices.Compact(paths)) != 6 {
			t.Errorf("stdout: got %q, want six paths", paths)
		}
	}
}

// A pair's answer may be anywhere, also when it is enqueued or the run is resumed;
// the record does not say where.
func TestOutOfAPairAnywhere(t *testing.T) {
	t.Parallel()
	_, fleetFile, keys := simulated(t, simulator.Config{})
	dir, elsewhere := tree(t, runFiles("fleet.yaml", fleetFile)), t.TempDir()
	pair := []string{"--file-a", filepath.Join(dir, "a.md"), "--file-b", filepath.Join(dir, "b.md"), "--provider", "openai", "--model", "gpt-5-mini",
		"--config", filepath.Join(dir, "fleet.yaml")}
	out := filepath.Join(elsewhere, "new", "<model_name>.md")
	want := filepath.Join(elsewhere, "new", "gpt-5-mini.md")
	answered := func(stdout string) {
		t.Helper()
		if paths := answersIn(t, dir, stdout); !slices.Equal(paths, []string{want}) {
			t.Errorf("stdout: got %q, want %q", paths, want)
		}
		if err := os.Remove(want); err != nil {
			t.Error(err)
		}
	}

	code, stdout, stderr := evalfleet(t, keys, append([]string{"run", "--out", out, "--out-dir", filepath.Join(dir, "out")}, pair...)...)
	if code != 0 {
		t.Fatalf("run ended with %d:\n%s", code, stderr)
	}
	answered(stdout)
	if code, stdout, stderr = evalfleet(t, keys, "resume", filepath.Join(dir, "out")); code != 0 {
		t.Fatalf("resume ended with %d:\n%s", code, stderr)
	}
	answered(stdout)
	manifest, err := os.ReadFile(filepath.Join(dir, "out", "manifest.json"))
	if err != nil || strings.Contains(string(manifest), `"outs"`) {
		t.Errorf("manifest: %v; want settings without outs:\n%s", err, manifest)
	}

	redis := redistest.NewTCP(t).URL()
	worker := launch(t, dir, "worker", "--redis", redis, "--config", "fleet.yaml", "--env-file", writeEnv(t, dir, keys))
	args := append([]string{"enqueue", "--wait", "--redis", redis, "--again", "fleet", "--out", out, "--out-dir", filepath.Join(dir, "fleet")}, pair...)
	code, stdout, stderr = evalfleet(t, keys, args...)
	if code != 0 {
		t.Fatalf("enqueue ended with %d:\n%s\nworker:\n%s", code, stderr, worker.stderr.String())
	}
	path, id, _ := strings.Cut(strings.TrimSpace(stdout), "\n")
	answered(path)
	if !strings.HasPrefix(id, "ev-") {
		t.Errorf("the last line of stdout is %q, want the evaluation's id", id)
	}
}

// A file at out that evalfleet did not write is refused before the first call, together
// with all other problems. Its own answers are replaced.
func TestOutOverAnotherFileIsRefusedFirst(t *testing.T) {
	server, fleetFile, keys := simulated(t, simulator.Config{})
	dir := tree(t, runFiles("fleet.yaml", fleetFile, "notes.md", "my notes\n", "eval.yaml", `provider: openai
model: gpt-5-mini
runs:
- {id: one, file_a: a.md, file_b: b.md, out: answers/<run_id>.md}
- {id: two, file_a: a.md, file_b: b.md, out: notes.md}
- {id: three, file_a: a.md, file_b: missing.md}
`))
	t.Chdir(dir)
	command := func(want int, args ...string) string {
		t.Helper()
		code, _, stderr := evalfleet(t, keys, append(args, "--config", "fleet.yaml")...)
		if code != want {
			t.Fatalf("%s ended with %d, want %d:\n%s", args[0], code, want, stderr)
		}
		return stderr
	}
	run := []string{"run", "eval.yaml", "--out-dir", "out"}
	for _, args := range [][]string{{"validate", "eval.yaml"}, run, append(run, "--dry-run"), {"enqueue", "eval.yaml", "--redis", "redis://unused.invalid"}} {
		stderr := command(2, args...)
		for _, want := range []string{"eval.yaml:5:46: runs[1].out: cannot write notes.md: the file exists, and evalfleet did not write it", "missing.md"} {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s says\n%swant %q", args[0], stderr, want)
			}
		}
	}
	if got := server.Stats().All.Arrived; got != 0 {
		t.Errorf("%d calls were made, want none", got)
	}
	if err := os.Rename("notes.md", "missing.md"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second replaces the answers of the first
		command(0, run...)
	}
	if text, err := os.ReadFile("notes.md"); err != nil || !strings.HasPrefix(string(text), "This is a simulated answer.") {
		t.Errorf("notes.md: got %q, %v; want the answer", text, err)
	}
	if err := os.WriteFile("answers/one.md", []byte("edited\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if stderr := command(2, run...); !strings.Contains(stderr, "cannot write answers/one.md") {
		t.Errorf("an edited answer would be replaced:\n%s", stderr)
	}
}

// writeEnv writes an .env file with keys.
func writeEnv(t *testing.T, dir string, keys map[string]string) string {
	t.Helper()
	var text strings.Builder
	for name, value := range keys {
		fmt.Fprintf(&text, "%s=%s\n", name, value)
	}
	path := filepath.Join(dir, "keys.env")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The example's answers are where its README says, in the order of the list.
func TestRunsExample(t *testing.T) {
	t.Parallel()
	example, err := filepath.Abs("../../examples/runs/evaluation.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := launch(t, dir, "run", example, "--out-dir", "out")
	if code := p.wait(); code != 0 {
		t.Fatalf("run ended with %d", code)
	}
	want := []string{
		"out/tides.careful.tides-summary.fpf.response.md", "evalfleet-out/summaries/lighthouse.careful.lighthouse-summary.md",
		"out/tides.average.tides-questions.fpf.response.md", "out/lighthouse.careful.run4.fpf.response.md",
	}
	if diff := cmp.Diff(want, answersIn(t, dir, p.stdout.String())); diff != "" {
		t.Errorf("stdout (-want +got):\n%s", diff)
	}
}

func TestLookingAtListedRuns(t *testing.T) {
	t.Parallel()
	_, fleetFile, keys := simulated(t, simulator.Config{})
	dir := tree(t, runFiles("fleet.yaml", fleetFile, "eval.yaml", "name: batch\nprovider: simulator\nruns:\n"+
		"- {id: first, model: careful, file_a: a.md, file_b: b.md}\n- {id: second, model: average, file_a: b.md, file_b: b.md, overrides: {seed: 7}}\n"))
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, step := range []struct {
		args string
		want []string // of stdout
	}{
		{"validate eval.yaml --config fleet.yaml", []string{"batch (ev-", "): 2 listed runs of 2 files (2 different texts, 31 bytes), answered by simulator:careful, simulator:average {\"seed\":7}. 1 phase: runs of 2 runs, 2 runs in all."}},
		{"estimate eval.yaml --config fleet.yaml", []string{"2 runs, at least 2 calls", "runs   simulator:careful", "1,000 for an answer in prose"}},
		{"run eval.yaml --config fleet.yaml --out-dir out", []string{"out/b.careful.first.fpf.response.md", "out/b.average.second.fpf.response.md"}},
		{"status out", []string{"batch", "2"}},
		{"show 0.1 out", []string{"run ev-", "second", "b.md", "simulator:average", "It rained in $HOME."}},
		{"show second out", []string{"run ev-", ".0.1 of batch", "own id", "second", "simulator:average", "It rained in $HOME."}},
	} {
		var args []string
		for _, word := range strings.Fields(step.args) {
			if strings.HasSuffix(word, ".yaml") || word == "out" {
				word = at(word)
			}
			args = append(args, word)
		}
		code, stdout, stderr := evalfleet(t, keys, args...)
		rest := stdout
		for _, want := range step.want {
			var ok bool
			if _, rest, ok = strings.Cut(rest, want); !ok || code != 0 {
				t.Errorf("%s ended with %d:\n%s\n%s\nwant 0, and in order %q", step.args, code, stdout, stderr, step.want)
				break
			}
		}
	}
}

func TestShowOfNoListedRun(t *testing.T) {
	t.Parallel()
	dir := tree(t, runFiles("eval.yaml", asksKeys+"runs: [{id: first, file_a: a.md, file_b: b.md}]\n"))
	out := filepath.Join(dir, "out")
	if code, _, stderr := evalfleet(t, nil, "run", filepath.Join(dir, "eval.yaml"), "--out-dir", out); code != 0 {
		t.Fatalf("run ended with %d:\n%s", code, stderr)
	}
	for argument, want := range map[string]string{
		"frist": "has no run frist; did you mean first?",
		"other": "want <phase>.<index>, such as 0.17, or r0-17 as in tables, or the id of a listed run",
	} {
		if code, _, stderr := evalfleet(t, nil, "show", argument, out); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("show %s ended with %d:\n%s\nwant 2 and %q", argument, code, stderr, want)
		}
	}
}
