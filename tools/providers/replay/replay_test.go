package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/tools/providers/replay/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestReplay reads cassettes in every form, with an answer of each dialect, and judges
// what the dialects make of them.
func TestReplay(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	wrong, err := replay(t.Context(), "testdata", &out)
	if err != nil || wrong != 0 {
		t.Errorf("got %d answers read wrong, %v", wrong, err)
	}
	var table [][]string
	for line := range strings.Lines(out.String()) {
		table = append(table, strings.Fields(line))
	}
	want := [][]string{
		strings.Fields("dialect answers read right failures among them with a search repeated not judged"),
		{"chat", "5", "5", "3", "1", "0", "1"},
		{"generate", "1", "1", "0", "1", "0", "1"},
		{"messages", "3", "3", "2", "1", "0", "0"},
		{"ollama", "1", "1", "0", "0", "0", "0"},
		{"responses", "2", "2", "0", "1", "0", "0"},
		{"all", "12", "12", "5", "4", "0", "2"},
		strings.Fields("not judged: chat: a stream, or no JSON (1)"),
		strings.Fields("not judged: generate: numbers in place of words, as the request asked (1)"),
		strings.Fields("temperatures and efforts of requests compared with models.yaml: 1"),
		strings.Fields("files that are no cassettes: 1"),
	}
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

// TestReplaySaysWhatIsReadWrong: each difference is printed with its recording.
func TestReplaySaysWhatIsReadWrong(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	// A count that no call has is dropped by the dialects and not by what is expected.
	cassette := `{"interactions": [{"request": {"method": "POST", "uri": "https://api.openai.com/v1/responses", "body": "{\"model\": \"m\"}"},
		"response": {"status": {"code": 200}, "body": {"string": "{\"status\": \"completed\", \"output\": [{\"type\": \"message\", \"content\": [{\"type\": \"output_text\", \"text\": \"B.\"}]}], \"usage\": {\"input_tokens\": 9e12, \"output_tokens\": 1}}"}}}]}`
	if err := os.WriteFile(filepath.Join(folder, "c.json"), fmt.Append(nil, cassette), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	wrong, err := replay(t.Context(), folder, &out)
	if wrong != 1 || err != nil || !strings.Contains(out.String(), "c.json#1 (api.openai.com, m, HTTP 200)\n    input: got 0, want 9000000000000\n") {
		t.Errorf("got %d wrong, %v:\n%s", wrong, err, &out)
	}
	if _, err := replay(t.Context(), filepath.Join(folder, "missing"), &out); err == nil {
		t.Error("a folder that does not exist: got no error")
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	usd := 0.5
	good := expect.Answer{Finish: "stop", Text: "B. It is.", Counted: true, Input: 9, Output: 3, Cached: 2, Reasoning: 1, Searches: 1, Pages: 1, Tier: "flex", CostUSD: &usd}
	read := func(change func(*providers.Result)) *providers.Result {
		result := &providers.Result{
			Text: "B.\n\nIt is.", Finish: providers.FinishStop,
			Usage:     providers.Usage{Reported: true, Input: 9, Output: 3, Cached: 2, Reasoning: 1, Tier: "flex", CostUSD: &usd},
			Grounding: providers.Grounding{Searches: 1, Sources: []providers.Source{{URL: "https://a.example/"}}},
		}
		change(result)
		return result
	}
	failed := func(class providers.Class, used providers.Usage) error {
		return &providers.Error{Class: class, Used: used}
	}
	for name, test := range map[string]struct {
		want   expect.Answer
		result *providers.Result
		err    error
		begins []string // of the differences
	}{
		"right":              {good, read(func(*providers.Result) {}), nil, nil},
		"another text":       {good, read(func(r *providers.Result) { r.Text = "A." }), nil, []string{"text"}},
		"cut off":            {good, read(func(r *providers.Result) { r.Finish = providers.FinishTruncated }), nil, []string{"finish"}},
		"no usage":           {good, read(func(r *providers.Result) { r.Usage = providers.Usage{CostUSD: &usd, Tier: "flex"} }), nil, []string{"usage", "input", "output", "cached", "reasoning"}},
		"no tier, no cost":   {good, read(func(r *providers.Result) { r.Usage.Tier, r.Usage.CostUSD = "", nil }), nil, []string{"tier", "cost"}},
		"no evidence":        {good, read(func(r *providers.Result) { r.Grounding = providers.Grounding{} }), nil, []string{"searches", "pages"}},
		"an error":           {good, nil, failed(providers.Transient, providers.Usage{}), []string{"got transient"}},
		"words of a refusal": {expect.Answer{Finish: "refused"}, &providers.Result{Finish: providers.FinishRefused, Text: "no"}, nil, nil},
		"the right class":    {expect.Answer{Classes: []string{"auth"}}, nil, failed(providers.Auth, providers.Usage{}), nil},
		"the wrong class":    {expect.Answer{Classes: []string{"auth"}}, nil, failed(providers.Transient, providers.Usage{}), []string{"class"}},
		"a failure is taken": {expect.Answer{Classes: []string{"auth"}}, read(func(*providers.Result) {}), nil, []string{"got the text"}},
		"a failure's usage":  {expect.Answer{Classes: []string{"transient"}, Input: 1, Output: 2}, nil, failed(providers.Transient, providers.Usage{Reported: true, Input: 3, Output: 2}), []string{"input"}},
	} {
		differences := judge(test.want, test.result, test.err)
		same := slices.EqualFunc(test.begins, differences, func(begin, difference string) bool { return strings.HasPrefix(difference, begin) })
		if !same {
			t.Errorf("%s: got %q, want what begins with %q", name, differences, test.begins)
		}
	}
}

// TestCheckTable has requests of the built-in providers whose fate says something about
// the table, and some whose fate does not.
func TestCheckTable(t *testing.T) {
	t.Parallel()
	const unsupported = `{"error":{"message":"Unsupported value: 'temperature' does not support 0 with this model, nor this reasoning.effort.","code":"unsupported_value"}}`
	for name, test := range map[string]struct {
		call
		request, response string
		status            int
		checked           int
		wrong             string // the beginning
	}{
		"taken, as it says":         {call{"chat", "", "openai-chat", "gpt-4.1"}, `{"temperature":0}`, `{}`, 200, 1, ""},
		"taken against it":          {call{"chat", "", "openai-chat", "gpt-5"}, `{"temperature":0}`, `{}`, 200, 1, "a temperature was accepted"},
		"the default":               {call{"chat", "", "openai-chat", "gpt-5"}, `{"temperature":1}`, `{}`, 200, 0, ""},
		"refused, as it says":       {call{"chat", "", "openai-chat", "gpt-5"}, `{"temperature":0}`, unsupported, 400, 1, ""},
		"refused against it":        {call{"chat", "", "openai-chat", "gpt-4.1"}, `{"temperature":0}`, unsupported, 400, 1, "a temperature was refused"},
		"out of range":              {call{"chat", "", "openai-chat", "gpt-4.1"}, `{"temperature":-1}`, `{"error":{"message":"Invalid 'temperature': below minimum"}}`, 400, 0, ""},
		"a failure":                 {call{"chat", "", "openai-chat", "gpt-4.1"}, `{"temperature":0}`, unsupported, 500, 0, ""},
		"an effort against it":      {call{"responses", "", "openai", "gpt-5-mini"}, `{"reasoning":{"effort":"none"}}`, `{}`, 200, 1, "effort none was accepted"},
		"an effort refused":         {call{"responses", "", "openai", "gpt-5-mini"}, `{"reasoning":{"effort":"low"}}`, unsupported, 400, 1, "effort low was refused"},
		"a level":                   {call{"generate", "", "google", "gemini-3-pro-preview"}, `{"generationConfig":{"temperature":0,"thinkingConfig":{"thinkingLevel":"MINIMAL"}}}`, `{}`, 200, 2, "effort minimal was accepted"},
		"Claude does not think":     {call{"messages", "", "anthropic", "claude-sonnet-4-5"}, `{"temperature":0}`, `{}`, 200, 1, ""},
		"Claude thinks":             {call{"messages", "", "anthropic", "claude-sonnet-4-5"}, `{"temperature":0,"thinking":{"type":"enabled"}}`, `{}`, 200, 1, "a temperature was accepted"},
		"a provider without a name": {call{"chat", "", "", "gpt-5"}, `{"temperature":0}`, `{}`, 200, 0, ""},
	} {
		checked, wrong := checkTable(test.call, recording{request: []byte(test.request), response: []byte(test.response), status: test.status})
		if said := strings.Join(wrong, "; "); checked != test.checked || (test.wrong == "") != (said == "") || !strings.HasPrefix(said, test.wrong) {
			t.Errorf("%s: checked %d, found %q; want %d, %q", name, checked, said, test.checked, test.wrong)
		}
	}
}

// TestExpectationsShareNoCode: what is expected comes from the standard library alone.
func TestExpectationsShareNoCode(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("expect/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range file.Imports {
			if strings.Contains(imported.Path.Value, ".") {
				t.Errorf("%s imports %s", name, imported.Path.Value)
			}
		}
	}
}
