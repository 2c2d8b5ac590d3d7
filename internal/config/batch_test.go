package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
)

func batchOf(t testing.TB, text string, o Options) (*Submission, string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "requests.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := loadBatch(path, o)
	if err != nil {
		return nil, strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
	}
	return s, ""
}

// request is a line of a Batch file.
func request(id, rest string) string {
	return `{"custom_id":"` + id + `","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-4o","messages":[{"role":"user","content":"` + id + `"}]` + rest + "}}\n"
}

func TestBatch(t *testing.T) {
	t.Parallel()
	text := "\ufeff" + request("a", `,"max_tokens":5,"top_k":3`) + "\n" + request("b", `,"top_k":3,"max_tokens":5`) + request("c", ``)
	s, problems := batchOf(t, text, Options{})
	if problems != "" {
		t.Fatal(problems)
	}
	p := s.Evaluation.Prompts
	if s.Evaluation.Name != "requests" || p.Format != eval.PromptsBatch || s.Evaluation.JSON != eval.JSONFalse {
		t.Errorf("got %q of the format %q, JSON %s", s.Evaluation.Name, p.Format, s.Evaluation.JSON)
	}
	if diff := cmp.Diff([]eval.Prompt{{ID: "a"}, {ID: "b", Row: 1}, {ID: "c", Model: 1, Row: 2}}, p.List); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	want := []eval.Judge{
		{Name: `openai-chat:gpt-4o {"max_completion_tokens":5,"top_k":3}`, Provider: "openai-chat", Model: "gpt-4o", Overrides: map[string]any{"max_completion_tokens": 5.0, "top_k": 3.0}},
		{Name: "openai-chat:gpt-4o", Provider: "openai-chat", Model: "gpt-4o"},
	}
	if diff := cmp.Diff(want, p.Models); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
	if row := p.Rows[1]; row.ID != "line 3" || s.Texts[row.Hash] != strings.TrimSpace(request("b", `,"top_k":3,"max_tokens":5`)) {
		t.Errorf("row %+v is %q, want line 3 as it is written", row, s.Texts[row.Hash])
	}
	if len(s.Warnings) != 0 {
		t.Errorf("warnings: %v", s.Warnings)
	}

	s, problems = batchOf(t, text, Options{Provider: "anthropic", Model: "claude-sonnet-4-5"})
	if problems != "" {
		t.Fatal(problems)
	}
	if got := s.Evaluation.Prompts.Models[0]; got.Target() != "anthropic:claude-sonnet-4-5" || got.Overrides["top_k"] != nil {
		t.Errorf("sent elsewhere: got %+v", got)
	}
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0].String(), "anthropic does not support top_k") {
		t.Errorf("warnings: got %v, want one of top_k", s.Warnings)
	}
}

func TestBatchProblems(t *testing.T) {
	t.Parallel()
	responses := strings.ReplaceAll(strings.Replace(request("r", ""), "/v1/chat/completions", "/v1/responses", 1), `"messages":[{"role":"user","content":"r"}]`, `"input":"r"`)
	for name, tt := range map[string]struct {
		text string
		o    Options
		want string
	}{
		"duplicate id":   {request("a", "") + request("b", "") + request("a", ""), Options{}, `requests.jsonl:3:14: custom_id: the custom_id "a" is already used in line 1; give each request a unique custom_id`},
		"unknown url":    {strings.Replace(request("a", ""), "/v1/chat/completions", "/v1/embeddings", 1), Options{}, `requests.jsonl:1:40: url: endpoint "/v1/embeddings" is not supported; want /v1/chat/completions or /v1/responses`},
		"mixed urls":     {request("a", "") + responses, Options{}, `requests.jsonl:2:40: url: the url is /v1/responses here, and /v1/chat/completions in line 1; put the requests of each endpoint into a separate file`},
		"stream":         {request("a", `,"stream":true`), Options{}, "requests.jsonl:1:70: body: stream is true, but answers are written to a file only when complete; remove it"},
		"another method": {strings.Replace(request("a", ""), "POST", "GET", 1), Options{}, `requests.jsonl:1:27: method: got "GET"; want POST`},
		"several": {`{"custom_id":7,"url":"/v1/responses"}` + "\n{}\nx\n", Options{}, strings.Join([]string{
			"requests.jsonl:1: body: the line has no body; each line has custom_id, method, url and body",
			"requests.jsonl:1: method: the line has no method; each line has custom_id, method, url and body",
			"requests.jsonl:1:14: custom_id: got 7; want text of at most 512 printable characters",
			"requests.jsonl:2: custom_id: the line has no custom_id; each line has custom_id, method, url and body",
			"requests.jsonl:2: method: the line has no method; each line has custom_id, method, url and body",
			"requests.jsonl:2: url: the line has no url; each line has custom_id, method, url and body",
			"requests.jsonl:2: body: the line has no body; each line has custom_id, method, url and body",
			"requests.jsonl:3:1: not JSON: invalid character 'x' looking for beginning of value; write one JSON object per line",
		}, "\n")},
		"no model":         {strings.Replace(request("a", ""), `"model":"gpt-4o",`, "", 1), Options{}, "requests.jsonl:1:70: body: the body does not name a model; add model, or set --model"},
		"an image":         {strings.Replace(request("a", ""), `"content":"a"`, `"content":[{"type":"image_url","image_url":"https://h/i.png"}]`, 1), Options{}, `requests.jsonl:1:70: body: messages[0]: a part of its content has the type "image_url", which is not supported here`},
		"unknown provider": {request("a", ""), Options{Provider: "anthropc"}, "--provider: unknown provider anthropc; did you mean anthropic?"},
		"empty":            {"\n", Options{}, `requests.jsonl: the file has no requests; write one JSON object per line: {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {…}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, got := batchOf(t, tt.text, tt.o); !sameLines(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// sameLines compares problems whatever the order of those of one place.
func sameLines(a, b string) bool {
	lines := func(s string) map[string]int {
		all := map[string]int{}
		for line := range strings.Lines(s + "\n") {
			all[line]++
		}
		return all
	}
	return cmp.Equal(lines(a), lines(b))
}

// Whatever a Batch file contains, reading it ends with a submission or with problems that all
// have a place.
func FuzzBatch(f *testing.F) {
	for _, seed := range []string{
		request("a", ""), request("a", `,"stream":true,"n":1e400`), request("a", "") + request("a", ""),
		`{"custom_id":"r","method":"POST","url":"/v1/responses","body":{"model":"m","instructions":"i","input":[{"role":"user","content":[{"type":"input_text","text":"u"}]}]}}`,
		"{}", "[]", "null", `{"custom_id":null,"body":[]}`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, problems := batchOf(t, string(text), Options{})
		if (s == nil) == (problems == "") {
			t.Errorf("got submission %v and problems %q, want one of them", s, problems)
		}
		if s != nil && len(s.Evaluation.Prompts.List) == 0 {
			t.Error("a submission without requests")
		}
	})
}
