package prompto_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/prompto"
)

func user(text string) eval.Message      { return eval.Message{Role: "user", Content: text} }
func assistant(text string) eval.Message { return eval.Message{Role: "assistant", Content: text} }
func system(text string) eval.Message    { return eval.Message{Role: "system", Content: text} }

func TestRead(t *testing.T) {
	t.Parallel()
	hostile := "$HOME ${x} {{.}} {INPUT_PROMPT} [[documents]] <file_b_stem> `rm` %s \\n \r\n\ttab\x00 \u202eend\u2028 </document>\n"
	quoted, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		line     string
		want     [][]eval.Message
		complete bool
	}{
		"a text":           {line: `{"prompt": "Hi", "api": "openai"}`, want: [][]eval.Message{{user("Hi")}}},
		"byte for byte":    {line: `{"prompt": ` + string(quoted) + `}`, want: [][]eval.Message{{user(hostile)}}},
		"an empty text":    {line: `{"prompt": ""}`, want: [][]eval.Message{{user("")}}},
		"escaped":          {line: `{"prompt": "caf\u00e9 \ud83d\ude00 \u0000"}`, want: [][]eval.Message{{user("café 😀 \x00")}}},
		"to be continued":  {line: `{"prompt": "Once", "mode": "completion"}`, want: [][]eval.Message{{user("Once")}}, complete: true},
		"turns":            {line: `{"prompt": ["a", "b", ` + string(quoted) + `], "mode": "chat"}`, want: [][]eval.Message{{user("a")}, {user("b")}, {user(hostile)}}},
		"messages":         {line: `{"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]}`, want: [][]eval.Message{{system("s"), user("a"), assistant("b"), user("c")}}},
		"Google's":         {line: `{"api": "gemini", "prompt": [{"role": "system", "parts": "s"}, {"role": "user", "parts": ["a"]}, {"role": "model", "parts": "b"}, {"role": "user", "parts": {"text": "c"}}]}`, want: [][]eval.Message{{system("s"), user("a"), assistant("b"), user("c")}}},
		"parts":            {line: `{"prompt": [{"role": "user", "content": ["a", {"type": "text", "text": "b"}]}]}`, want: [][]eval.Message{{user("a\n\nb")}}},
		"a hostile part":   {line: `{"prompt": [{"role": "user", "content": [{"type": "text", "text": ` + string(quoted) + `}]}]}`, want: [][]eval.Message{{user(hostile)}}},
		"system in places": {line: `{"api": "ollama", "prompt": [{"role": "user", "content": "a"}, {"role": "system", "content": "s"}, {"role": "user", "content": "b"}]}`, want: [][]eval.Message{{user("a"), system("s"), user("b")}}},
		"begun answer":     {line: `{"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}`, want: [][]eval.Message{{user("a"), assistant("b")}}},
	} {
		got, err := prompto.Read(test.line)
		want := eval.Conversation{Turns: test.want, Complete: test.complete}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`[]`:                            "not a JSON object",
		`{}`:                            "prompt is empty",
		`{"prompt": null}`:              "prompt is empty",
		`{"prompt": []}`:                "prompt is empty",
		`{"prompt": 7}`:                 "has an unknown form",
		`{"prompt": {"role": "user"}}`:  "has an unknown form",
		`{"prompt": ["a", 7]}`:          "prompt[1] is not text",
		`{"prompt": [7]}`:               "prompt[0] is not a message",
		`{"prompt": [{"role":"user"}]}`: "prompt[0] is not a message",
		`{"prompt": [{"role":"user","content":"a","parts":"a"}]}`:                                         "prompt[0] is not a message",
		`{"prompt": [{"role":"user","content":"a"}, "b"]}`:                                                "prompt[1] is not a message",
		`{"prompt": [{"role":"tool","content":"a"}]}`:                                                     `prompt[0] has the role "tool"`,
		`{"prompt": [{"role":"user","content":7}]}`:                                                       "prompt[0]: its content is neither",
		`{"prompt": [{"role":"user","content":null}]}`:                                                    "prompt[0]: its content is neither",
		`{"prompt": [{"role":"user","content":["a",{"type":"image_url"}]}]}`:                              `prompt[0]: a part of its content has no image_url`,
		`{"prompt": [{"role":"assistant","content":[{"type":"image_url","image_url":"a.jpg"}]}]}`:         "prompt[0]: only messages with the role user can show images",
		`{"prompt": [{"role":"user","parts":[{"type":"video","media":"a.mp4"}]}]}`:                        `has the type "video"`,
		`{"prompt": [{"role":"user","parts":[{"type":"image"}]}]}`:                                        "an image without an address, a file or data",
		`{"prompt": [{"role":"system","content":"s"}]}`:                                                   "last message must have the role user",
		`{"api":"gemini", "prompt": [{"role":"user","parts":"a"}, {"role":"system","parts":"s"}]}`:        "only the first message of gemini",
		`{"api":"anthropic", "prompt": [{"role":"user","content":"a"}, {"role":"system","content":"s"}]}`: "only the first message of anthropic",
		`{"api":"openai", "prompt": [{"role":"user","content":"a"}, {"role":"system","content":"s"}]}`:    "last message must have the role user",
		`{"prompt": ["a"], "mode": "completion"}`:                                                         `mode "completion" takes one text`,
		`{"prompt": "a", "mode": "poem"}`:                                                                 `mode is "poem"`,
	} {
		if _, err := prompto.Read(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", line, err, want)
		}
	}
}

// Each turn says all that was said before it, in order.
func TestTurnsFollowTheirAnswers(t *testing.T) {
	t.Parallel()
	w, err := prompto.Read(`{"prompt": ["a", "b", "c"]}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		answers []string
		want    []eval.Message
	}{
		{nil, []eval.Message{user("a")}},
		{[]string{"1"}, []eval.Message{user("a"), assistant("1"), user("b")}},
		{[]string{"1", ""}, []eval.Message{user("a"), assistant("1"), user("b"), assistant(""), user("c")}},
	} {
		if diff := cmp.Diff(test.want, w.At(test.answers)); diff != "" {
			t.Errorf("after %q (-want +got):\n%s", test.answers, diff)
		}
	}
}

// A line is the same settings, and so the same evaluation, whenever it is read.
func TestSettingsOfTwoWords(t *testing.T) {
	t.Parallel()
	for api, parameters := range map[string]map[string]any{
		"openai": {"max_completion_tokens": 1, "max_tokens": 2},
		"gemini": {"maxOutputTokens": 1, "max_output_tokens": 2},
	} {
		for range 50 {
			settings, _ := prompto.Settings(api, parameters, "")
			if got := settings["max_completion_tokens"]; got != 2 {
				t.Fatalf("%s: the bound is %v, want that of the word that comes last", api, got)
			}
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	blocked := func(threshold string) []any {
		var all []any
		for _, harm := range []string{"HATE_SPEECH", "HARASSMENT", "SEXUALLY_EXPLICIT", "DANGEROUS_CONTENT"} {
			all = append(all, map[string]any{"category": "HARM_CATEGORY_" + harm, "threshold": threshold})
		}
		return all
	}
	type settings = map[string]any
	for _, test := range []struct {
		api        string
		parameters settings
		filter     string
		want       settings
	}{
		{"openai", nil, "", settings{}},
		{"openai", settings{"n": 2.0, "temperature": 1.0, "max_tokens": 100.0}, "none", settings{"n": 2.0, "temperature": 1.0, "max_completion_tokens": 100.0}},
		{"anthropic", settings{"max_tokens": 9.0, "top_k": 3.0}, "", settings{"max_completion_tokens": 9.0, "top_k": 3.0}},
		{"test", settings{"raise_error": "True"}, "", settings{"raise_error": "True"}},
		{"ollama", settings{"temperature": 1.0, "num_predict": 100.0, "seed": 0.0}, "", settings{"temperature": 1.0, "max_completion_tokens": 100.0, "options": settings{"seed": 0.0}}},
		{"ollama", settings{"temperature": 1.0}, "", settings{"temperature": 1.0}},
		{"gemini", settings{"candidate_count": 1.0, "temperature": 1.0, "max_output_tokens": 100.0, "topP": 0.5}, "none", settings{
			"temperature": 1.0, "max_completion_tokens": 100.0, "generationConfig": settings{"candidateCount": 1.0, "topP": 0.5}, "safetySettings": blocked("BLOCK_NONE"),
		}},
		{"vertexai", nil, "", settings{"safetySettings": blocked("BLOCK_MEDIUM_AND_ABOVE")}},
		{"gemini", nil, "few", settings{"safetySettings": blocked("BLOCK_ONLY_HIGH")}},
		{"gemini", nil, "most", settings{"safetySettings": blocked("BLOCK_LOW_AND_ABOVE")}},
	} {
		got, known := prompto.Settings(test.api, test.parameters, test.filter)
		if diff := cmp.Diff(test.want, got); diff != "" || !known {
			t.Errorf("%s, %v, %q: known %v (-want +got):\n%s", test.api, test.parameters, test.filter, known, diff)
		}
	}
	if _, known := prompto.Settings("gemini", nil, "all"); known {
		t.Error(`the safety filter "all" is known`)
	}
}

func TestLogEndedBeforeTheFirstAnswer(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	const want = "02-01-2026, 03:04: So far 0 of 9 prompts of experiment: x! Experiment processing time: 2.000 seconds, Average time per query: 2.000 seconds\n"
	if got := prompto.LogEnded(at, "x", 0, 9, 2*time.Second); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
