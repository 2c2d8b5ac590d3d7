package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tongue asks the same in one dialect as in every other.
type tongue struct {
	path   string // of a request for %s, if the model is there
	header []string
	key    string // the header that has it
	prefix string // before the key
	// body asks a model after a schema, which may be empty.
	body func(model, system, user string, schema json.RawMessage) map[string]any
	text func(body map[string]any) string // of an answer
}

var tongues = map[string]tongue{
	"chat": {
		path: chatPath, key: "Authorization", prefix: "Bearer ",
		body: func(model, system, user string, schema json.RawMessage) map[string]any {
			body := map[string]any{"model": model, "messages": []message{{"system", system}, {"user", user}}}
			if schema != nil {
				body["response_format"] = map[string]any{"type": "json_schema", "json_schema": map[string]any{"schema": schema}}
			}
			return body
		},
		text: func(body map[string]any) string {
			return at(body, "choices", 0, "message", "content").(string)
		},
	},
	"responses": {
		path: responsesPath, key: "Authorization", prefix: "Bearer ",
		body: func(model, system, user string, schema json.RawMessage) map[string]any {
			body := map[string]any{"model": model, "instructions": system, "input": []message{{"user", user}}}
			if schema != nil {
				body["text"] = map[string]any{"format": map[string]any{"type": "json_schema", "name": "verdict", "schema": schema}}
			}
			return body
		},
		text: func(body map[string]any) string { return at(body, "output", 0, "content", 0, "text").(string) },
	},
	"messages": {
		path: messagesPath, header: []string{"Anthropic-Version", "2023-06-01"}, key: "X-Api-Key",
		body: func(model, system, user string, schema json.RawMessage) map[string]any {
			body := map[string]any{"model": model, "max_tokens": 4000, "system": system, "messages": []message{{"user", user}}}
			if schema != nil {
				body["output_config"] = map[string]any{"format": map[string]any{"type": "json_schema", "schema": schema}}
			}
			return body
		},
		text: func(body map[string]any) string { return at(body, "content", 0, "text").(string) },
	},
	"ollama": {
		path: ollamaPath, key: "Authorization", prefix: "Bearer ",
		body: func(model, system, user string, schema json.RawMessage) map[string]any {
			return map[string]any{"model": model, "messages": []message{{"system", system}, {"user", user}}, "format": schema, "stream": false}
		},
		text: func(body map[string]any) string { return at(body, "message", "content").(string) },
	},
	"generate": {
		path: "/v1beta/models/%s:generateContent", key: "X-Goog-Api-Key",
		body: func(_, system, user string, schema json.RawMessage) map[string]any {
			type part struct {
				Text string `json:"text"`
			}
			body := map[string]any{
				"systemInstruction": map[string]any{"parts": []part{{system}}},
				"contents":          []any{map[string]any{"role": "user", "parts": []part{{user}}}},
			}
			if schema != nil {
				body["generationConfig"] = map[string]any{"responseMimeType": "application/json", "responseJsonSchema": schema}
			}
			return body
		},
		text: func(body map[string]any) string {
			return at(body, "candidates", 0, "content", "parts", 0, "text").(string)
		},
	},
}

// at is the value at the end of a path of names and numbers; nil: none.
func at(from any, way ...any) any {
	for _, step := range way {
		switch step := step.(type) {
		case string:
			object, _ := from.(map[string]any)
			from = object[step]
		case int:
			list, _ := from.([]any)
			if step >= len(list) {
				return nil
			}
			from = list[step]
		}
	}
	return from
}

func (s *Server) speak(t *testing.T, in tongue, model, system, user string, schema json.RawMessage, header ...string) wire {
	t.Helper()
	path := in.path
	if strings.Contains(path, "%s") {
		path = fmt.Sprintf(path, model)
	}
	return s.post(t, path, encode(in.body(model, system, user, schema)), append(header, in.header...)...)
}

func TestEveryDialectJudgesAndCountsTheSame(t *testing.T) {
	t.Parallel()
	messages := pair(document{"a", prose}, document{"b", flawedProse})
	other := json.RawMessage(fmt.Sprintf(pairSchema, `"a","b","tie"`))
	single := fenced("", document{"a", flawedProse})
	type judged struct {
		Texts                  [3]string
		Input, Output, Charged int64
		Prompts                int
	}
	got := map[string]judged{}
	for name, in := range tongues {
		s := start(t, Config{Limits: Limits{Tokens: Rates{{N: 100_000, Window: time.Hour}}}})
		var j judged
		for i, test := range []struct {
			messages []message
			schema   json.RawMessage
		}{{messages, nil}, {messages, other}, {single, json.RawMessage(describedSchema)}} {
			answer := s.speak(t, in, "careful", test.messages[0].Content, test.messages[1].Content, test.schema)
			if answer.status != 200 {
				t.Fatalf("%s: got %+v", name, answer)
			}
			j.Texts[i] = in.text(answer.body)
		}
		all := s.Stats().All
		j.Input, j.Output, j.Charged, j.Prompts = all.InputTokens, all.OutputTokens, all.Limits[0].Charged, all.Prompts
		got[name] = j
	}
	want := got["chat"]
	if !strings.Contains(want.Texts[0], `"winner_doc_id":"a"`) || !strings.Contains(want.Texts[2], `"criterion":"facts"`) || want.Charged == 0 {
		t.Errorf("chat: got %+v", want)
	}
	for name, judged := range got {
		if diff := cmp.Diff(want, judged); diff != "" {
			t.Errorf("%s (-chat +%[1]s):\n%s", name, diff)
		}
	}
}

// TestBlocksOfATurnDoNotRunTogether has each document in a block of its own,
// without an end of line.
func TestBlocksOfATurnDoNotRunTogether(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	text := strings.TrimSpace(pair(document{"a", prose}, document{"b", flawedProse})[1].Content)
	first, second, ok := strings.Cut(text, "\n\n<document id=\"b\"")
	if !ok {
		t.Fatalf("got %q", text)
	}
	type block struct {
		Type string `json:"type,omitempty"`
		Text string `json:"text"`
	}
	blocks := func(kind string) []block { return []block{{kind, first}, {kind, "<document id=\"b\"" + second}} }
	for name, body := range map[string]map[string]any{
		"chat":      {"model": "careful", "messages": []any{map[string]any{"role": "user", "content": blocks("text")}}},
		"responses": {"model": "careful", "input": []any{map[string]any{"role": "user", "content": blocks("input_text")}}},
		"messages":  {"model": "careful", "max_tokens": 500, "messages": []any{map[string]any{"role": "user", "content": blocks("text")}}},
		"generate":  {"contents": []any{map[string]any{"parts": blocks("")}}},
	} {
		in := tongues[name]
		got := s.post(t, strings.Replace(in.path, "%s", "careful", 1), encode(body), in.header...)
		if got.status != 200 || !strings.Contains(in.text(got.body), `"winner_doc_id":"a"`) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestEveryDialectKeepsLimitsAndKeys(t *testing.T) {
	t.Parallel()
	for name, in := range tongues {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{Limits: Limits{Requests: Rates{{N: 1, Window: time.Hour}}}, Keys: []string{"right"}})
			var statuses []int
			for _, key := range []string{"", "wrong", "right", "right"} {
				header := []string{in.key, in.prefix + key}
				if key == "" {
					header = nil
				}
				statuses = append(statuses, s.speak(t, in, "careful", "Be brief.", "Say something.", nil, header...).status)
			}
			want := []int{401, 401, 200, 429}
			if name == "generate" {
				want = []int{403, 400, 200, 429}
			}
			if diff := cmp.Diff(want, statuses); diff != "" {
				t.Errorf("statuses (-want +got):\n%s", diff)
			}
			stats := s.Stats()
			if stats.All.Arrived != 2 || stats.All.Rejected != 1 || stats.Keys != (KeyCounts{Right: 2, Wrong: 1, Missing: 1}) {
				t.Errorf("counted: got %+v", stats)
			}
			if header, key := s.LastKey(); header != in.key || key != "right" {
				t.Errorf("last key: got %q %q", header, key)
			}
		})
	}
}

func TestEveryDialectIsSpoilt(t *testing.T) {
	t.Parallel()
	for name, in := range tongues {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{Models: map[string]Model{
				"hanging":   {Behaviour: &Behaviour{HangRate: 1}},
				"cut":       {Behaviour: &Behaviour{CutRate: 1}},
				"garbage":   {Behaviour: &Behaviour{FailRate: 1, FailAs: Garbage}},
				"failing":   {Behaviour: &Behaviour{FailRate: 1, FailStatus: 503}},
				"malformed": {Behaviour: &Behaviour{MalformedRate: 1}},
				"huge":      {Behaviour: &Behaviour{AnswerBytes: 10 << 20}},
			}})
			ask := func(ctx context.Context, model string) (int, []byte, error) {
				messages := pair(document{"a", prose}, document{"b", flawedProse})
				path := strings.Replace(in.path, "%s", model, 1)
				body := encode(in.body(model, messages[0].Content, messages[1].Content, nil))
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, strings.NewReader(body))
				if err != nil {
					return 0, nil, err
				}
				for i := 0; i < len(in.header); i += 2 {
					req.Header.Set(in.header[i], in.header[i+1])
				}
				resp, err := client.Do(req)
				if err != nil {
					return 0, nil, err
				}
				defer resp.Body.Close()
				answer, err := io.ReadAll(resp.Body)
				return resp.StatusCode, answer, err
			}
			ctx, leave := context.WithCancel(t.Context())
			left := make(chan error, 1)
			go func() {
				_, _, err := ask(ctx, "hanging")
				left <- err
			}()
			s.until(t, "one hangs", func(c Counts) bool { return c.InFlight == 1 })
			leave()
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Errorf("hanging: got %v", err)
			}
			if _, _, err := ask(t.Context(), "cut"); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("cut: got %v", err)
			}
			if status, body, err := ask(t.Context(), "garbage"); err != nil || status != 200 || json.Valid(body) {
				t.Errorf("garbage: got %d %q, %v", status, body, err)
			}
			if status, body, err := ask(t.Context(), "failing"); err != nil || status != 503 || !json.Valid(body) {
				t.Errorf("failing: got %d %q, %v", status, body, err)
			}
			if status, body, err := ask(t.Context(), "huge"); err != nil || status != 200 || len(body) < 10<<20 || !json.Valid(body) {
				t.Errorf("huge: got %d and %d bytes, %v", status, len(body), err)
			}
			_, body, err := ask(t.Context(), "malformed")
			var v pairVerdict
			if text := in.text(decoded(t, string(body))); err != nil || json.Unmarshal([]byte(text), &v) == nil && v.Winner == "a" && v.Reason != "" {
				t.Errorf("malformed: got %s, %v", body, err)
			}
			s.until(t, "all at their end", func(c Counts) bool {
				return c.InFlight == 0 && c.Abandoned == 1 && c.Cut == 1 && c.Failed == 2 && c.Answered == 2
			})
		})
	}
}

// FuzzDialects has no request bring a dialect down.
func FuzzDialects(f *testing.F) {
	f.Add(`{"model":"careful","max_tokens":5,"stream":false,"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"thinking":{"type":"adaptive"}}`, true)
	f.Add(`{"model":"careful","input":[{"role":"user","content":"JSON"}],"background":true,"reasoning":{"summary":"auto"},"tools":[{"type":"web_search"}]}`, false)
	f.Add(`{"contents":[{"role":"model","parts":[{"text":"x"}]}],"tools":[{"googleSearch":{}}],"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}}`, false)
	f.Add(`{"model":"careful","max_tokens":-5,"messages":[{"role":"user","content":"x"}]}`, true)
	f.Add(`{"model":"careful","stream":false,"options":{"num_ctx":-1,"num_predict":-2}}`, true)
	paths := []string{chatPath, responsesPath, messagesPath, generatePath, ollamaPath}
	simulators := []*Simulator{
		New(Config{Behaviour: Behaviour{RefuseRate: 0.2, FilterRate: 0.2, TruncateRate: 0.3, UngroundedRate: 0.5, CachedShare: 0.7}}),
		New(Config{Behaviour: Behaviour{FailRate: 0.5, FailAs: FailedIn200, Pauses: 1, ContextWindow: 50, Vendor: OpenRouter}}),
	}
	f.Fuzz(func(t *testing.T, body string, second bool) {
		s := simulators[0]
		if second {
			s = simulators[1]
		}
		for _, path := range paths {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
			req.Header.Set(version[0], version[1])
			w := httptest.NewRecorder()
			s.ServeHTTP(w, req)
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s: got %q", path, w.Body)
			}
		}
		if all := s.Stats().All; all.InputTokens < 0 || all.OutputTokens < 0 || all.InFlight > int(all.Submitted) {
			t.Errorf("counted: got %+v", all)
		}
	})
}
