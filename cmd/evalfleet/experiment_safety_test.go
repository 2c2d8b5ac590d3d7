package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Lines of Gemini get the field safety_attributes, as prompto writes it: of the answer,
// or of each turn. Answers without ratings have none in it; lines of other APIs, and
// failed ones, have no such field.
func TestExperimentSafetyAttributes(t *testing.T) {
	t.Parallel()
	const rating = `"safetyRatings":[{"category":"HARM_CATEGORY_HATE_SPEECH","probability":"NEGLIGIBLE"},{"category":"HARM_CATEGORY_HARASSMENT","probability":"MEDIUM","blocked":true}]`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		candidate := `{"content":{"parts":[{"text":"yes"}]},"finishReason":"STOP"}`
		for _, is := range []struct{ prompt, candidate string }{
			{"stopped here", `{"finishReason":"SAFETY",` + rating + `}`},
			{"second turn", `{"content":{"parts":[{"text":"two"}]},"finishReason":"STOP","safetyRatings":[{"category":"HARM_CATEGORY_NEW","probability":"ODD"}]}`},
			{"first turn", `{"content":{"parts":[{"text":"one"}]},"finishReason":"STOP",` + rating + `}`},
			{"cut here", `{"content":{"parts":[{"text":"ye"}]},"finishReason":"MAX_TOKENS",` + rating + `}`},
			{"odd ratings", `{"content":{"parts":[{"text":"yes"}]},"finishReason":"STOP","safetyRatings":{"a":1}}`},
		} {
			if strings.Contains(string(body), is.prompt) {
				candidate = is.candidate
				break
			}
		}
		_, _ = io.WriteString(w, `{"candidates":[`+candidate+`],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":1}}`)
	}))
	t.Cleanup(server.Close)
	lines := []string{
		`{"id": "a", "api": "gemini", "model_name": "gemini-2.5-flash", "prompt": "cut here"`,
		`{"id": "b", "api": "gemini", "model_name": "gemini-2.5-flash", "prompt": ["first turn", "second turn"]`,
		`{"id": "c", "api": "vertexai", "model_name": "gemini-2.5-flash", "prompt": "no ratings"`,
		`{"id": "d", "api": "gemini", "model_name": "gemini-2.5-flash", "prompt": "odd ratings"`,
		`{"id": "e", "api": "gemini", "model_name": "gemini-2.5-flash", "prompt": "stopped here"`,
		`{"id": "f", "api": "test", "model_name": "m", "prompt": "x", "parameters": {"raise_error": "no"}`,
	}
	dir := tree(t, map[string]string{
		"x.jsonl":    strings.Join(lines, "}\n") + "}\n",
		"fleet.yaml": strings.ReplaceAll("providers:\n  google: {base_url: \"URL\"}\n  vertexai: {dialect: generate, base_url: \"URL\"}\n", "URL", server.URL),
	})
	out := filepath.Join(dir, "out")
	code, stdout, stderr := evalfleet(t, map[string]string{"GEMINI_API_KEY": "k"}, "run", filepath.Join(dir, "x.jsonl"),
		"--data-folder", filepath.Join(dir, "data"), "--out-dir", out, "--config", filepath.Join(dir, "fleet.yaml"), "--max-queries", "60000", "--max-attempts", "1")
	if code != int(exitRunsFailed) {
		t.Fatalf("code %d, want %d\n%s", code, exitRunsFailed, stderr)
	}
	raw, err := os.ReadFile(strings.TrimSpace(stdout))
	if err != nil {
		t.Fatal(err)
	}
	const (
		rated = `{"HARM_CATEGORY_HATE_SPEECH": "1", "HARM_CATEGORY_HARASSMENT": "3", "blocked": "[False, True]", "finish_reason": `
		empty = `{"blocked": "[]", "finish_reason": "STOP"}`
	)
	want := map[string]string{
		"a": `"ye", "safety_attributes": ` + rated + `"MAX_TOKENS"}}`,
		"b": `["one", "two"], "safety_attributes": [` + rated + `"STOP"}, {"HARM_CATEGORY_NEW": "ODD", "blocked": "[False]", "finish_reason": "STOP"}]}`,
		"c": `"yes", "safety_attributes": ` + empty + `}`,
		"d": `"yes", "safety_attributes": ` + empty + `}`,
		"e": "failed",
		"f": `"This is a test response"}`,
	}
	got := map[string]string{}
	response := regexp.MustCompile(`"timestamp_sent": "[^"]*", "response": (.*)$`)
	for line := range strings.Lines(string(raw)) {
		found := response.FindStringSubmatch(strings.TrimSpace(line))
		if found == nil {
			t.Fatalf("%s has no response", line)
		}
		id := line[8:9]
		got[id] = found[1]
		if regexp.MustCompile(`"error": "refused: .*SAFETY`).MatchString(line) && !strings.Contains(line, "safety_attributes") {
			got[id] = "failed"
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if _, shown, stderr := evalfleet(t, nil, "show", "a", out); strings.Contains(shown, "searches") || !strings.Contains(shown, "ye") {
		t.Errorf("show tells of searches, or of no answer:\n%s%s", shown, stderr)
	}
}
