//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/results"
	"github.com/evalfleet/evalfleet/internal/view/show"
	"github.com/evalfleet/evalfleet/worker/observe"
)

// scribe is a provider of the dialect chat that repeats in its answers the last line
// that it was sent and the key that came with it; the model "bad" it does not have.
type scribe struct{ asked atomic.Int64 }

func (s *scribe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	var asked struct {
		Model    string `json:"model"`
		Messages []struct {
			Content string `json:"content"`
		} `json:"messages"`
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &asked) != nil || len(asked.Messages) != 1 {
		http.Error(w, fmt.Sprintf("asked with %s, %v", body, err), http.StatusBadRequest)
		return
	}
	if asked.Model == "bad" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"message":"%s may not use bad"}}`, key)
		return
	}
	lines := strings.Split(asked.Messages[0].Content, "\n")
	finish := "stop"
	if asked.Model == "short" {
		finish = "length"
	}
	answer, _ := json.Marshal(fmt.Sprintf("You say %s, %s.\n", lines[len(lines)-1], key))
	fmt.Fprintf(w, `{"choices":[{"message":{"content":%s},"finish_reason":"%s"}],"usage":{"prompt_tokens":9,"completion_tokens":5}}`, answer, finish)
}

const scribeKey = "planted-key-of-the-scribe"

// scribeFiles are four listed runs of a scribe at url; the second fails and the third is cut
// off.
func scribeFiles(url string) map[string]string {
	return map[string]string{
		".env":     "SCRIBE_KEY=" + scribeKey + "\n",
		"do.txt":   "Do $SCRIBE_KEY for <run_id>.",
		"in/a.txt": "about A",
		"in/b.txt": "about $SCRIBE_KEY {B}",
		"runs.yaml": "name: letters\nproviders: {scribe: {dialect: chat, base_url: \"" + url + "/v1\", api_key_env: SCRIBE_KEY}}\n" +
			"grounding: off\nreasoning: off\nretry: {initial_delay: 10ms, jitter: 10ms}\nprovider: scribe\nmodel: good\nruns:\n" +
			"  - {id: r1, file_a: do.txt, file_b: in/a.txt, out: answers/<file_b_stem>.md}\n" +
			"  - {id: r2, file_a: do.txt, file_b: in/a.txt, model: bad}\n" +
			"  - {id: \"3/../x\", file_a: do.txt, file_b: in/b.txt, model: short}\n" +
			"  - {id: r4, file_a: do.txt, file_b: in/b.txt}\n",
	}
}

// One of several listed runs fails: the exit code is 1, the others are written,
// stdout has their paths alone, each run has its log and its events, and the key is
// nowhere. The same command again asks nothing that was answered, and writes again
// what is gone.
func TestListedRunsFromFileToAnswers(t *testing.T) {
	t.Parallel()
	provider := &scribe{}
	server := httptest.NewServer(provider)
	t.Cleanup(server.Close)
	dir := tree(t, scribeFiles(server.URL))
	run := func(code int, args ...string) *program {
		t.Helper()
		p := launch(t, dir, args...)
		if got := p.wait(); got != code {
			t.Errorf("%v ended with %d, want %d:\n%s", args, got, code, p.stderr.String())
		}
		return p
	}
	p := run(1, "run", "runs.yaml", "--out-dir", "o", "--allow-keys", "scribe=SCRIBE_KEY")
	answers := []string{"answers/a.md", "o/b.short.3_.._x.fpf.response.md", "o/b.good.r4.fpf.response.md"}
	if want := strings.Join(answers, "\n") + "\n"; p.stdout.String() != want {
		t.Errorf("stdout is\n%swant\n%s", p.stdout.String(), want)
	}
	read := func(name string) string {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Error(err)
		}
		return string(raw)
	}
	for i, about := range []string{"about A", "about $SCRIBE_KEY {B}", "about $SCRIBE_KEY {B}"} {
		if got := read(answers[i]); !strings.HasPrefix(got, "You say "+about+", ") || !strings.HasSuffix(got, ".\n") {
			t.Errorf("%s holds %q, want the answer as it came", answers[i], got)
		}
	}
	for name, text := range everyFile(t, dir, ".env") {
		if strings.Contains(text, scribeKey) {
			t.Errorf("the key is in %s", name)
		}
	}
	if strings.Contains(p.stderr.String(), scribeKey) {
		t.Error("the key is in the log")
	}

	logs := map[string]show.Run{}
	for _, name := range []string{"r1", "r2", "3_.._x", "r4"} {
		var log show.Run
		if err := json.Unmarshal([]byte(read("o/logs/"+name+".json")), &log); err != nil {
			t.Errorf("log %s: %v", name, err)
		}
		if len(log.Prompt) != 1 || !strings.HasPrefix(log.Prompt[0].Content, "Do $SCRIBE_KEY for <run_id>.\n\nabout") || len(log.Calls) == 0 {
			t.Errorf("log %s has the prompt %q and %d calls", name, log.Prompt, len(log.Calls))
		}
		logs[name] = log
	}
	if failed := logs["r2"].Outcome; failed == nil || failed.Class != "bad_request" || logs["r2"].Calls[0].Status != 400 {
		t.Errorf("the log of the failed run has %+v", failed)
	}
	if cut := logs["3_.._x"].Outcome; cut == nil || cut.Finish != "truncated" {
		t.Errorf("the log of the run that was cut off has %+v", cut)
	}
	if len(slices.Collect(strings.Lines(read("o/"+results.ResponsesFile)))) != 4 {
		t.Errorf("%s has not a line for every run", results.ResponsesFile)
	}

	got := map[string][]string{}
	for lines := bufio.NewScanner(strings.NewReader(read("o/events.jsonl"))); lines.Scan(); {
		var e observe.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if e.Provider != "scribe" || e.Model == "" || e.Evaluation == "" {
			t.Errorf("event %s", lines.Text())
		}
		got[e.RunID] = append(got[e.RunID], e.Event)
	}
	lifecycle := func(last string) []string {
		return []string{"queued", "started", "queueing", "acquired", "released", last}
	}
	want := map[string][]string{"r1": lifecycle("succeeded"), "r2": lifecycle("failed"), "3/../x": lifecycle("succeeded"), "r4": lifecycle("succeeded")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}

	// Once more, with one answer gone and one that has no room: nothing is asked.
	asked := provider.asked.Load()
	if err := os.RemoveAll(filepath.Join(dir, "answers")); err != nil {
		t.Fatal(err)
	}
	run(0, "run", "runs.yaml", "--out-dir", "o", "--fail-on", "never", "--allow-keys", "scribe=SCRIBE_KEY")
	if text := read(answers[0]); !strings.Contains(text, "about A") {
		t.Errorf("the answer that was gone is %q", text)
	}
	if err := os.RemoveAll(filepath.Join(dir, "answers")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "answers"), []byte("a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	p = run(2, "resume", "o")
	for _, words := range []string{"answer of run r1", "answers/a.md", "evalfleet resume o"} {
		if !strings.Contains(p.stderr.String(), words) {
			t.Errorf("stderr does not say %q:\n%s", words, p.stderr.String())
		}
	}
	if p.stdout.String() != answers[1]+"\n"+answers[2]+"\n" || !strings.Contains(read("o/"+results.ResponsesFile), "about A") {
		t.Errorf("beside an answer that cannot be written stdout is\n%s", p.stdout.String())
	}
	if n := provider.asked.Load(); n != asked {
		t.Errorf("the provider was asked %d times more", n-asked)
	}
}

// A key from .env is used, and exported to no environment.
func TestRunLeavesTheEnvironmentAlone(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&scribe{})
	t.Cleanup(server.Close)
	files := scribeFiles(server.URL)
	files["settings.yaml"], _, _ = strings.Cut(files["runs.yaml"], "runs:\n")
	dir := tree(t, files)
	before := os.Environ()
	code, stdout, stderr := evalfleet(t, nil, "run", filepath.Join(dir, "settings.yaml"), "--allow-keys", "scribe=SCRIBE_KEY", "--env-file", filepath.Join(dir, ".env"), "--out-dir", filepath.Join(dir, "o"),
		"--file-a", filepath.Join(dir, "do.txt"), "--file-b", filepath.Join(dir, "in/a.txt"), "--out", filepath.Join(dir, "elsewhere", "<run_id>.md"))
	if want := filepath.Join(dir, "elsewhere", "run1.md") + "\n"; code != 0 || stdout != want {
		t.Errorf("ended with %d and %q, want %q\n%s", code, stdout, want, stderr)
	}
	if diff := cmp.Diff(before, os.Environ()); diff != "" {
		t.Errorf("environment (-before +after):\n%s", diff)
	}
}
