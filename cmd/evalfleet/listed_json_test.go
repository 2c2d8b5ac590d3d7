package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/internal/simulator"
)

// jsonFleet is a fleet's file by which OpenAI, OpenRouter and Google are asked at a
// simulator, and their keys.
func jsonFleet(server *simulator.Server) (fleetFile string, keys map[string]string) {
	fleetFile = fmt.Sprintf("providers:\n  openai: {base_url: \"%[1]s/v1\"}\n  openrouter: {base_url: \"%[1]s/v1\"}\n"+
		"  google: {base_url: %[1]q}\n  plain: {base_url: \"%[1]s/v1\", models: {careful: {json: none}}}\n", server.URL)
	return fleetFile, map[string]string{"OPENAI_API_KEY": "planted-openai", "OPENROUTER_API_KEY": "planted-openrouter", "GEMINI_API_KEY": "planted-google"}
}

// JSON of listed runs: one call where a model searches and writes JSON in one, two
// where it does not, as the simulator counts them. The answer file holds the JSON, and
// the run's log each call with its stage and model.
func TestJSONOfListedRuns(t *testing.T) {
	t.Parallel()
	const (
		gpt     = "openai:gpt-5-mini"
		gemini  = "google:gemini-2.5-flash"
		gemini3 = "google:gemini-3-flash-preview"
		writer  = "openai:gpt-4.1-mini"
	)
	for _, test := range []struct {
		name, model, mode, grounding string
		stages                       []string // stage and model of each call
		prose                        bool
	}{
		{"OpenAI with a search, auto", gpt, "auto", "required", []string{"answer " + gpt}, false},
		{"OpenAI with a search, true", gpt, "true", "required", []string{"answer " + gpt}, false},
		{"OpenRouter's OpenAI with a search", "openrouter:openai/gpt-5-mini", "auto", "required", []string{"answer openrouter:openai/gpt-5-mini"}, false},
		{"Gemini 3 with a search", gemini3, "true", "required", []string{"answer " + gemini3}, false},
		{"Gemini with a search, auto", gemini, "auto", "required", []string{"grounded " + gemini, "json " + writer}, false},
		{"Gemini with a search, true", gemini, "true", "required", []string{"grounded " + gemini, "json " + writer}, false},
		{"Gemini without a search", gemini, "true", "off", []string{"answer " + gemini}, false},
		{"Gemini, false", gemini, "false", "required", []string{"answer " + gemini}, true},
		{"nothing said", gpt, "", "required", []string{"answer " + gpt}, true},
		{"no structured output, auto", "plain:careful", "auto", "off", []string{"answer plain:careful"}, false},
		{"no structured output, true", "plain:careful", "true", "off", []string{"grounded plain:careful", "json " + writer}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server, err := simulator.Listen("127.0.0.1:0", simulator.Config{Models: map[string]simulator.Model{
				"gpt-5-mini": {}, "openai/gpt-5-mini": {}, "gpt-4.1-mini": {}, "gemini-2.5-flash": {}, "gemini-3-flash-preview": {}, "careful": {}}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = server.Close() })
			fleetFile, keys := jsonFleet(server)
			if provider := strings.Split(test.model, ":")[0]; provider == "google" && len(test.stages) == 1 {
				delete(keys, "OPENAI_API_KEY") // which only jsonify would need
			}
			provider, model, _ := strings.Cut(test.model, ":")
			dir := tree(t, runFiles("fleet.yaml", fleetFile, "eval.yaml",
				"grounding: "+test.grounding+"\nreasoning: off\ntest: {file_a: a.md, file_b: b.md}\n"))
			command := []string{"run", filepath.Join(dir, "eval.yaml"), "--provider", provider, "--model", model,
				"--config", filepath.Join(dir, "fleet.yaml"), "--out-dir", filepath.Join(dir, "out")}
			if test.mode != "" {
				command = append(command, "--json-mode", test.mode)
			}
			code, stdout, stderr := evalfleet(t, keys, command...)
			if code != 0 {
				t.Fatalf("run ended with %d:\n%s", code, stderr)
			}
			text, err := os.ReadFile(strings.TrimSpace(stdout))
			if err != nil {
				t.Fatal(err)
			}
			var object map[string]string
			if isJSON := json.Unmarshal(text, &object) == nil; isJSON == test.prose || !test.prose && !strings.Contains(object["answer"], "simulated answer") {
				t.Errorf("the answer file has %s; JSON is wanted: %v", text, !test.prose)
			}
			if got := int(server.Stats().All.Answered); got != len(test.stages) {
				t.Errorf("the provider answered %d calls, want %d", got, len(test.stages))
			}
			if diff := cmp.Diff(test.stages, stagesIn(t, filepath.Join(dir, "out", "logs", "run1.json"))); diff != "" {
				t.Errorf("calls in the log (-want +got):\n%s", diff)
			}
			if strings.Contains(stderr, "nothing is left for jsonify") {
				t.Errorf("warned of a jsonify that was not given:\n%s", stderr)
			}
		})
	}
}

// stagesIn are the stages and models of the calls in a run's log.
func stagesIn(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var log struct {
		Calls []struct{ Stage, Model string }
	}
	if err := json.Unmarshal(text, &log); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	var stages []string
	for _, call := range log.Calls {
		stages = append(stages, call.Stage+" "+call.Model)
	}
	return stages
}

// A failed second call is retried alone: the search is paid for once.
func TestJSONOfListedRunsRepeatsTheSecondCallAlone(t *testing.T) {
	t.Parallel()
	server, err := simulator.Listen("127.0.0.1:0", simulator.Config{
		Models: map[string]simulator.Model{"gemini-2.5-flash": {}, "gpt-4.1-mini": {Behaviour: &simulator.Behaviour{FailEvery: 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	fleetFile, keys := jsonFleet(server)
	dir := tree(t, runFiles("fleet.yaml", fleetFile+"retry: {initial_delay: 1ms}\n"))
	runs := fmt.Sprintf(`[{"provider": "google", "model": "gemini-2.5-flash", "file_a": %q, "file_b": %q}]`, filepath.Join(dir, "a.md"), filepath.Join(dir, "b.md"))
	lookup := func(name string) (string, bool) { value, ok := keys[name]; return value, ok }
	var stdout, stderr bytes.Buffer
	args := []string{"run", "--runs-stdin", "--json-mode", "auto", "--config", filepath.Join(dir, "fleet.yaml"), "--out-dir", filepath.Join(dir, "out")}
	if code := Main(t.Context(), nil, args, lookup, strings.NewReader(runs), &stdout, &stderr); code != 0 || stdout.Len() == 0 {
		t.Fatalf("run ended with %d:\n%s", code, stderr.String())
	}
	stages := stagesIn(t, filepath.Join(dir, "out", "logs", "run1.json"))
	grounded := slices.DeleteFunc(slices.Clone(stages), func(s string) bool { return !strings.HasPrefix(s, "grounded ") })
	if len(stages) != 3 || len(grounded) != 1 {
		t.Errorf("calls in the log: %q, want one search and two calls for its JSON", stages)
	}
}
