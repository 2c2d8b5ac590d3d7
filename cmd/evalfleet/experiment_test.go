package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// promptoFiles holds experiment files of the tool that they are of, with its licence.
var promptoFiles = filepath.Join("..", "..", "internal", "config", "testdata", "prompto")

// writtenLine is what of an experiment's line a test looks at.
type writtenLine struct {
	ID       json.RawMessage `json:"id"`
	API      string          `json:"api"`
	Model    string          `json:"model_name"`
	Prompt   any             `json:"prompt"`
	Response json.RawMessage `json:"response"`
	Error    string          `json:"error"`
	Judges   string          `json:"input-id"`
}

func (l writtenLine) String() string { return fmt.Sprintf("%s of %s:%s", l.ID, l.API, l.Model) }

// turns is how many calls the line's prompt takes.
func (l writtenLine) turns() int {
	if list, ok := l.Prompt.([]any); ok {
		if _, isText := list[0].(string); isText {
			return len(list)
		}
	}
	return 1
}

func linesOf(t *testing.T, path string) []writtenLine {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []writtenLine
	for line := range strings.Lines(string(text)) {
		var l writtenLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, l)
	}
	return all
}

// completed are the lines of an experiment with their answers, which are in the one file of
// their kind.
func completed(t *testing.T, data, name string) []writtenLine {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(data, "output", name, "*-completed-"+name+".jsonl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: got the files %q (%v), want one", name, found, err)
	}
	return linesOf(t, found[0])
}

// The files of the tool that experiments come from run unchanged, those of a folder
// one after another: every prompt is answered once, by its API, through its queue, at
// its pace. The simulated provider counts.
func TestExperimentsOfAnotherTool(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(promptoFiles, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	data := t.TempDir()
	asked := map[string][]writtenLine{} // lines by experiment
	models := map[string]simulator.Model{}
	calls := map[string]int64{} // that are to arrive, by model
	for i, file := range files {
		name := filepath.Base(file)
		if name == "quart.jsonl" { // it has a line without a model
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(data, "input", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		age := time.Now().Add(-time.Duration(i) * time.Hour) // the last by name is the oldest
		if err := os.Chtimes(path, age, age); err != nil {
			t.Fatal(err)
		}
		lines := linesOf(t, path)
		asked[strings.TrimSuffix(name, ".jsonl")] = lines
		for _, l := range lines {
			if !strings.HasPrefix(l.Model, "unknown") && !cannotBeSent(l) {
				models[l.Model] = simulator.Model{}
				calls[l.Model] += int64(l.turns())
			}
		}
	}
	provider, err := simulator.Listen("127.0.0.1:0", simulator.Config{Models: models, KeepArrivals: 10_000, KeepTexts: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = provider.Close() })
	settings := tree(t, map[string]string{
		"fleet.yaml": strings.ReplaceAll(`providers:
  openai: {base_url: "URL/v1"}
  azure-openai: {base_url: "URL/v1"}
  anthropic: {base_url: "URL"}
  google: {base_url: "URL"}
  vertexai: {dialect: generate, base_url: "URL"}
  ollama: {base_url: "URL"}
`, "URL", provider.URL) + calm,
		"rates.json": `{"openai": {"default": 6000, "gpt-3.5-turbo": 3000}, "ollama": 3000}`,
	})
	env := map[string]string{"OPENAI_API_KEY": "k", "AZURE_OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k"}
	code, _, stderr := evalfleet(t, env, "run", "--data-folder", data, "--config", filepath.Join(settings, "fleet.yaml"), "--parallel",
		"--max-queries", "6000", "-mqj", filepath.Join(settings, "rates.json"), "--out-dir", filepath.Join(settings, "out"))
	if code != int(exitRunsFailed) {
		t.Fatalf("run ended with %d, want 1 for the prompts of unknown models\n%s", code, stderr)
	}
	begun := -1
	for _, file := range slices.Backward(files) {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		lines, ok := asked[name]
		if !ok {
			continue
		}
		at := strings.Index(stderr, fmt.Sprintf("%s: %d prompts", name, len(lines)))
		if at <= begun {
			t.Errorf("%s begins at %d of what was told, after %d: want the oldest file first\n%s", name, at, begun, stderr)
		}
		begun = at
		answered(t, lines, completed(t, data, name))
	}
	for model, want := range calls {
		if got := provider.Stats().Models[model]; got.Arrived != want || got.Rejected > 0 {
			t.Errorf("%s: %d calls arrived and %d were rejected, want %d and none", model, got.Arrived, got.Rejected, want)
		}
	}
	for model, interval := range map[string]time.Duration{"gpt-3.5-turbo": 20 * time.Millisecond, "llama3": 20 * time.Millisecond} {
		paced(t, provider.Arrivals(), model, interval)
	}
}

// cannotBeSent reports whether a line is wrong in a way that its run fails of.
func cannotBeSent(l writtenLine) bool {
	list, _ := l.Prompt.([]any)
	if len(list) == 0 || l.API == "ollama" || strings.HasSuffix(l.API, "openai") {
		return false
	}
	for _, message := range list[1:] {
		if m, ok := message.(map[string]any); ok && m["role"] == "system" {
			return true
		}
	}
	return false
}

// answered checks that each line has its answers, or an error where there can be none.
func answered(t *testing.T, asked, got []writtenLine) {
	t.Helper()
	byID := map[string]writtenLine{}
	for _, l := range got {
		byID[l.String()] = l
	}
	if len(got) != len(asked) || len(byID) != len(asked) {
		t.Errorf("%d lines of %d prompts, want %d", len(got), len(byID), len(asked))
	}
	for _, l := range asked {
		done, wantError := byID[l.String()], strings.HasPrefix(l.Model, "unknown") || cannotBeSent(l)
		var one string
		var several []string
		isOne, isSeveral := json.Unmarshal(done.Response, &one) == nil, json.Unmarshal(done.Response, &several) == nil
		switch {
		case wantError && (done.Error == "" || !isOne || one == ""):
			t.Errorf("%s: got response %s and error %q, want an error in both", l, done.Response, done.Error)
		case !wantError && (done.Error != "" || l.turns() == 1 && (!isOne || one == "") || l.turns() > 1 && (!isSeveral || len(several) != l.turns())):
			t.Errorf("%s: got response %s and error %q, want %d answers", l, done.Response, done.Error, l.turns())
		}
	}
}

// paced checks that the many prompts of one model did not arrive sooner than its
// queue's pace allows. Half of the time is enough: a first call that arrives late takes
// nothing off the pace.
func paced(t *testing.T, arrivals []simulator.Arrival, model string, interval time.Duration) {
	t.Helper()
	var at []time.Time
	for _, a := range arrivals {
		if a.Model == model && strings.Contains(strings.Join(a.Texts, "\n"), "### Instruction") {
			at = append(at, a.At)
		}
	}
	if len(at) < 50 {
		t.Fatalf("%s: %d of its prompts arrived, want the 100 of all_experiments", model, len(at))
	}
	least := time.Duration(len(at)-1) * interval / 2
	if span := at[len(at)-1].Sub(at[0]); span < least {
		t.Errorf("%s: %d prompts arrived within %s, want them %s apart", model, len(at), span, interval)
	}
}

// Prompts for OpenAI are asked of its chat completions, whose parameters they have, at
// the address and by the name that --config has: as the same account.
func TestExperimentsOfOpenAIAreChat(t *testing.T) {
	t.Parallel()
	var path atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		path.Store(r.URL.Path + " " + string(body))
		_, _ = io.WriteString(w, `{"choices": [{"message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}, {"message": {"role": "assistant", "content": "b"}, "finish_reason": "stop"}]}`)
	}))
	t.Cleanup(server.Close)
	dir := tree(t, map[string]string{
		"x.jsonl":    `{"id": 0, "api": "openai", "model_name": "gpt-4o", "prompt": "?", "parameters": {"n": 2, "max_tokens": 5, "temperature": 1}}`,
		"fleet.yaml": "providers: {openai: {base_url: \"" + server.URL + "/v1\"}}\nconcurrency: {per_provider: {openai: {max_concurrency: 1}}}\n",
	})
	code, _, stderr := evalfleet(t, map[string]string{"OPENAI_API_KEY": "k"}, "run", filepath.Join(dir, "x.jsonl"), "-d", dir,
		"--config", filepath.Join(dir, "fleet.yaml"), "--out-dir", filepath.Join(dir, "out"), "--log-level", "info")
	if code != 0 || !strings.Contains(stderr, "provider openai: 1 in flight") {
		t.Errorf("run ended with %d, want 0 under the provider's limit:\n%s", code, stderr)
	}
	const want = `/v1/chat/completions {"max_completion_tokens":5,"messages":[{"role":"user","content":"?"}],"model":"gpt-4o","n":2,"temperature":1}`
	if got := path.Load(); got != want {
		t.Errorf("sent\n%v\nwant\n%s", got, want)
	}
	if lines := completed(t, dir, "x"); string(lines[0].Response) != `["a", "b"]` {
		t.Errorf("response %s, want both answers", lines[0].Response)
	}
}

// The example does what its page says: queues by group and model, turns, judges of the
// answers once they are there, CSV. Again, it asks nothing again.
func TestExperimentExample(t *testing.T) {
	t.Parallel()
	example := filepath.Join("..", "..", "examples", "experiment")
	text, err := os.ReadFile(filepath.Join(example, "data", "input", "capitals.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	dir := tree(t, map[string]string{
		"capitals.jsonl": string(text), "data/media/x": "",
		"judge/settings.json": `{"strict": {"api": "test", "model_name": "small", "parameters": {"raise_error": "False"}}}`,
		"judge/brief.txt":     "Is {OUTPUT_RESPONSE} right?",
	})
	data := filepath.Join(dir, "data")
	run := func(file string, more ...string) (stderr string) {
		args := append([]string{"run", "--file", file, "-d", data, "-p", "-mqj", filepath.Join(example, "rates.json"), "--output-as-csv",
			"-jf", filepath.Join(dir, "judge"), "-jt", "brief.txt", "-j", "strict", "--out-dir", filepath.Join(dir, "out")}, more...)
		code, _, stderr := evalfleet(t, nil, args...)
		if code != 0 {
			t.Fatalf("run ended with %d:\n%s", code, stderr)
		}
		return stderr
	}
	queues := regexp.MustCompile(`capitals: 13 prompts\nqueue .*\nnear +4 +1,200\nnear-large +4 +600\nfar +4 +300\ntest +1 +600\n`)
	if stderr := run(filepath.Join(dir, "capitals.jsonl"), "--move-to-input"); !queues.MatchString(stderr) {
		t.Errorf("told\n%s\nwant the queues\n%s", stderr, queues)
	}
	lines, judged := completed(t, data, "capitals"), completed(t, data, "judge-capitals")
	if len(lines) != 13 || len(judged) != 13 {
		t.Fatalf("%d answers and %d of judges, want 13 each", len(lines), len(judged))
	}
	if want := fmt.Sprintf(`"judge-strict-brief-%s"`, judged[0].Judges); string(judged[0].ID) != want || judged[0].Prompt != "Is This is a test response right?" && judged[0].Judges != "turns" {
		t.Errorf("first judge's line is %s: %v, want %s about a test response", judged[0].ID, judged[0].Prompt, want)
	}
	for _, pattern := range []string{"capitals/*-completed-*.csv", "judge-capitals/*-completed-*.csv", "capitals/*-input-capitals.jsonl", "capitals/*-log-capitals.txt"} {
		if found, err := filepath.Glob(filepath.Join(data, "output", pattern)); err != nil || len(found) != 1 {
			t.Errorf("%s: got %q (%v), want one", pattern, found, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "capitals.jsonl")); err == nil {
		t.Error("the file is where it was, want it moved into the input folder")
	}
	if stderr := run(filepath.Join(data, "input", "capitals.jsonl")); strings.Count(stderr, "skipping 13 finished runs") != 2 {
		t.Errorf("the same again told\n%s\nwant all 13 runs of both skipped", stderr)
	}
	completed(t, data, "capitals") // one file still
}

// A wrong file of a data folder keeps no other from being run.
func TestWrongExperimentsOfAFolderAreSkipped(t *testing.T) {
	t.Parallel()
	const line = `{"id": %d, "api": "simulator", "model_name": "careful", "prompt": "What is %d?"}` + "\n"
	data := tree(t, map[string]string{
		"input/good.jsonl": fmt.Sprintf(line, 1, 1), "input/bad.jsonl": "nonsense\n",
		"input/half.jsonl": fmt.Sprintf(line, 1, 2) + `{"id": 2, "api": "simulator", "prompt": "?"}` + "\n",
	})
	code, _, stderr := evalfleet(t, nil, "run", "--data-folder", data, "--out-dir", filepath.Join(data, "out"), "--max-queries", "600")
	if code != int(exitUsage) {
		t.Errorf("run ended with %d, want %d:\n%s", code, exitUsage, stderr)
	}
	for _, want := range []string{"skipping " + filepath.Join(data, "input/bad.jsonl"), "bad.jsonl was skipped: see its problems above",
		"half.jsonl:2: model_name: the line has no model_name", "1 of 2 lines are skipped"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("it does not say %q:\n%s", want, stderr)
		}
	}
	for _, name := range []string{"good", "half"} {
		if lines := completed(t, data, name); len(lines) != 1 || len(lines[0].Response) < 3 {
			t.Errorf("%s has the answers %s, want one", name, lines)
		}
	}
	code, stdout, stderr := evalfleet(t, nil, "validate", "--data-folder", data)
	if code != int(exitUsage) || !strings.Contains(stdout, "good (ev-") || !strings.Contains(stdout, "half (ev-") {
		t.Errorf("validate ended with %d and\n%s%s", code, stdout, stderr)
	}
}
