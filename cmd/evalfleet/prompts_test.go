package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An experiment is run, looked at and reported; its answers are where its own tool
// would have put them, and their path is all that is on standard output.
func TestExperimentOfTheTestAPI(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"demo.jsonl": `{"id": "a", "api": "test", "model_name": "m", "prompt": "Hi $HOME", "parameters": {"raise_error": "False"}, "own": [1, 2.50]}
{"id": "b", "api": "test", "model_name": "m", "prompt": ["one", "two"], "parameters": {"raise_error": "no"}}
{"id": "c", "api": "test", "model_name": "m", "prompt": "x", "parameters": {"raise_error": "True"}}
{"id": "d", "api": "test", "model_name": "m", "prompt": "x", "parameters": {"raise_error": "yes", "raise_error_type": "Exception"}}
{"id": "e", "api": "test", "model_name": "m", "prompt": [{"role": "user", "content": [{"type": "audio", "media": "x.mp3"}]}]}
`})
	file, data, out := filepath.Join(dir, "demo.jsonl"), filepath.Join(dir, "data"), filepath.Join(dir, "out")
	_, dry, stderr := evalfleet(t, nil, "run", file, "--dry-run", "9")
	for _, want := range []string{"=== run 0.1: b\n", "\ntwo\n", "no call is made; the run fails: prompt[0]"} {
		if !strings.Contains(dry, want) {
			t.Errorf("--dry-run does not show %q:\n%s%s", want, dry, stderr)
		}
	}
	_, estimated, stderr := evalfleet(t, nil, "estimate", file)
	if !regexp.MustCompile(`(?m)^all +5 +0 +5 `).MatchString(estimated) { // two of one, none of another
		t.Errorf("the estimate is not of 5 runs and 5 calls:\n%s%s", estimated, stderr)
	}

	code, stdout, stderr := evalfleet(t, nil, "run", file, "--data-folder", data, "--out-dir", out, "--max-queries", "60000", "--max-attempts", "2", "--output-as-csv")
	if code != int(exitRunsFailed) {
		t.Fatalf("code %d, want %d\n%s", code, exitRunsFailed, stderr)
	}
	completed := strings.TrimSpace(stdout)
	stamp := regexp.MustCompile(`^\d\d-\d\d-\d{4}-\d\d-\d\d-\d\d-completed-demo\.jsonl$`)
	if filepath.Dir(completed) != filepath.Join(data, "output", "demo") || !stamp.MatchString(filepath.Base(completed)) {
		t.Fatalf("standard output is %q, want the path of the answers", stdout)
	}
	raw, err := os.ReadFile(completed)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	sent := regexp.MustCompile(`"timestamp_sent": "\d\d-\d\d-\d{4}-\d\d-\d\d-\d\d"`)
	for line := range strings.Lines(string(raw)) {
		got[line[:9]] = sent.ReplaceAllString(strings.TrimSpace(line), `"sent"`)
	}
	const failed, media = "This is a test error which we should handle and return", `prompt[0]: a part of its content has the type \"audio\", which is not supported here`
	want := map[string]string{
		`{"id": "a`: `{"id": "a", "api": "test", "model_name": "m", "prompt": "Hi $HOME", "parameters": {"raise_error": "False"}, "own": [1, 2.50], "sent", "response": "This is a test response"}`,
		`{"id": "b`: `{"id": "b", "api": "test", "model_name": "m", "prompt": ["one", "two"], "parameters": {"raise_error": "no"}, "sent", "response": ["This is a test response", "This is a test response"]}`,
		`{"id": "c`: `{"id": "c", "api": "test", "model_name": "m", "prompt": "x", "parameters": {"raise_error": "True"}, "sent", "response": "ValueError - ` + failed + `", "error": "bad_request: ` + failed + `"}`,
		`{"id": "d`: `{"id": "d", "api": "test", "model_name": "m", "prompt": "x", "parameters": {"raise_error": "yes", "raise_error_type": "Exception"}, "sent", "response": "An unexpected error occurred when querying the API: (Exception - ` + failed + `) after maximum 2 attempts", "error": "transient: ` + failed + `"}`,
		`{"id": "e`: `{"id": "e", "api": "test", "model_name": "m", "prompt": [{"role": "user", "content": [{"type": "audio", "media": "x.mp3"}]}], "sent", "response": "TypeError - ` + media + `", "error": "bad_request: ` + media + `"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}

	_, shown, stderr := evalfleet(t, nil, "show", "b", out)
	for _, want := range []string{"own id       b", "row          line 2", "sent behind the prompt:\n  assistant:\n    This is a test response\n  user:\n    two\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("show has no %q:\n%s%s", want, shown, stderr)
		}
	}
	_, status, stderr := evalfleet(t, nil, "status", out)
	if !regexp.MustCompile(`prompts +5/5 +100 % +3 failed`).MatchString(status) {
		t.Errorf("status:\n%s%s", status, stderr)
	}
	if err := os.RemoveAll(filepath.Join(data, "output")); err != nil {
		t.Fatal(err)
	}
	_, reported, stderr := evalfleet(t, nil, "report", out)
	written := filepath.Join(out, filepath.Base(completed))
	again, err := os.ReadFile(written)
	if err != nil || string(again) != string(raw) || !strings.Contains(reported, written) || strings.Count(reported, "completed-demo.jsonl") != 1 {
		t.Errorf("report writes other answers, %v:\n%s%s", err, reported, stderr)
	}
}
