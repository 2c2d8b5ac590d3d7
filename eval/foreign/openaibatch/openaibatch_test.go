package openaibatch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/eval"
)

func TestRead(t *testing.T) {
	t.Parallel()
	chat := func(messages string) string {
		return `{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":` + messages + `}}`
	}
	responses := func(rest string) string {
		return `{"custom_id":"1","method":"POST","url":"/v1/responses","body":{"model":"m"` + rest + `}}`
	}
	said := func(words ...string) []eval.Message {
		var all []eval.Message
		for i := 0; i < len(words); i += 2 {
			all = append(all, eval.Message{Role: words[i], Content: words[i+1]})
		}
		return all
	}
	for name, tt := range map[string]struct {
		line string
		want []eval.Message
		says string // an error
	}{
		"messages":     {chat(`[{"role":"developer","content":"D $x {} \u0000"},{"role":"user","content":"U"},{"role":"assistant","content":"A"},{"role":"user","content":"V"}]`), said("system", "D $x {} \x00", "user", "U", "assistant", "A", "user", "V"), ""},
		"parts":        {chat(`[{"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}]`), said("user", "one\n\ntwo"), ""},
		"input":        {responses(`,"input":"U"`), said("user", "U"), ""},
		"instructions": {responses(`,"instructions":"I","input":"U"`), said("system", "I", "user", "U"), ""},
		"items": {responses(`,"instructions":"I","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"U"}]},{"role":"assistant","content":[{"type":"output_text","text":"A"}]},{"role":"user","content":"V"}]`),
			said("system", "I", "user", "U", "assistant", "A", "user", "V"), ""},
		"no messages":   {chat(`[]`), nil, "body has no messages"},
		"messages text": {chat(`"U"`), nil, "cannot be read"},
		"an image":      {chat(`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x"}}]}]`), nil, `messages[0]: a part of its content has the type "image_url"`},
		"a tool":        {chat(`[{"role":"tool","content":"42"}]`), nil, `messages[0] has the role "tool"`},
		"no input":      {responses(``), nil, "body has no input"},
		"empty input":   {responses(`,"input":[]`), nil, "body has no input"},
		"another item":  {responses(`,"input":[{"type":"function_call_output","output":"42"}]`), nil, "input[0] is not a message"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, err := Read(tt.line)
			if tt.says != "" {
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("got %v, %v; want an error that says %q", w, err, tt.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, w.At(nil)); diff != "" || len(w.Turns) != 1 {
				t.Errorf("%d turns (-want +got):\n%s", len(w.Turns), diff)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	body := m{
		"model": "m", "messages": []any{}, "stream": false, "max_tokens": 20.0, "temperature": 0.5,
		"top_p": 0.9, "stop": "END", "seed": 7.0, "n": 2.0, "logit_bias": m{"1": 2.0},
	}
	for dialect, want := range map[string]struct {
		settings m
		dropped  []string
	}{
		"chat":      {m{"max_completion_tokens": 20.0, "temperature": 0.5, "top_p": 0.9, "stop": "END", "seed": 7.0, "n": 2.0, "logit_bias": m{"1": 2.0}}, nil},
		"responses": {m{"max_completion_tokens": 20.0, "temperature": 0.5, "top_p": 0.9}, []string{"logit_bias", "n", "seed", "stop"}},
		"messages":  {m{"max_completion_tokens": 20.0, "temperature": 0.5, "top_p": 0.9, "stop_sequences": []any{"END"}}, []string{"logit_bias", "n", "seed"}},
		"generate": {m{"max_completion_tokens": 20.0, "temperature": 0.5, "generationConfig": m{
			"topP": 0.9, "stopSequences": []any{"END"}, "seed": 7.0, "candidateCount": 2.0}}, []string{"logit_bias"}},
		"ollama": {m{"max_completion_tokens": 20.0, "temperature": 0.5, "options": m{"top_p": 0.9, "stop": []any{"END"}, "seed": 7.0}}, []string{"logit_bias", "n"}},
		"test":   {m{"max_completion_tokens": 20.0, "temperature": 0.5}, []string{"logit_bias", "n", "seed", "stop", "top_p"}},
	} {
		settings, dropped := Settings(Chat, dialect, body)
		if diff := cmp.Diff(want.settings, settings); diff != "" {
			t.Errorf("%s (-want +got):\n%s", dialect, diff)
		}
		if diff := cmp.Diff(want.dropped, dropped); diff != "" {
			t.Errorf("%s: dropped (-want +got):\n%s", dialect, diff)
		}
	}
	settings, dropped := Settings(Responses, "responses", m{"input": "x", "max_output_tokens": 9.0, "reasoning": m{"effort": "low"}, "store": false})
	if diff := cmp.Diff(m{"max_completion_tokens": 9.0, "reasoning_effort": "low", "store": false}, settings); diff != "" || dropped != nil {
		t.Errorf("responses: dropped %v (-want +got):\n%s", dropped, diff)
	}
	settings, dropped = Settings(Responses, "messages", m{"reasoning": m{"effort": "low", "summary": "auto"}})
	if len(settings) != 0 || !cmp.Equal(dropped, []string{"reasoning"}) {
		t.Errorf("more about reasoning than its effort: got %v, dropped %v", settings, dropped)
	}
}
