package simulator

import (
	"fmt"
	"strings"
	"testing"
)

const ollamaPath = "/api/chat"

func TestOllamaOnTheWire(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Models: map[string]Model{
		"cached":   {Behaviour: &Behaviour{CachedShare: 1}},
		"lazy":     {Behaviour: &Behaviour{UnreasonedRate: 1}},
		"prim":     {Behaviour: &Behaviour{RefuseRate: 1}},
		"filtered": {Behaviour: &Behaviour{FilterRate: 1}},
		"plain":    {Behaviour: &Behaviour{WithoutSchemas: true}},
	}})
	const asked = `"stream":false,"messages":[{"role":"user","content":"Say something."}]`
	done := func(model, message, reason, counts string) string {
		return fmt.Sprintf(`{"model":%q,"message":{"role":"assistant",%s},"done":true,"done_reason":%q%s}`, model, message, reason, counts)
	}
	wrong := func(message string) string { return fmt.Sprintf(`{"error":%q}`, message) }
	for name, test := range map[string]struct {
		body   string
		status int
		want   string
	}{
		"an answer":       {`{"model":"careful",` + asked + `}`, 200, done("careful", `"content":`+saying, "stop", `,"prompt_eval_count":8,"eval_count":29`)},
		"thoughts":        {`{"model":"careful","think":"low",` + asked + `}`, 200, done("careful", `"content":`+saying+`,"thinking":`+thinking, "stop", `,"prompt_eval_count":8,"eval_count":65`)},
		"no thoughts":     {`{"model":"careful","think":false,` + asked + `}`, 200, done("careful", `"content":`+saying, "stop", `,"prompt_eval_count":8,"eval_count":29`)},
		"not a thought":   {`{"model":"lazy","think":true,` + asked + `}`, 200, done("lazy", `"content":`+saying, "stop", `,"prompt_eval_count":8,"eval_count":29`)},
		"a bound":         {`{"model":"careful","options":{"num_predict":3},` + asked + `}`, 200, done("careful", `"content":"This is a si"`, "length", `,"prompt_eval_count":8,"eval_count":3`)},
		"a context":       {`{"model":"careful","shift":false,"options":{"num_ctx":11},` + asked + `}`, 200, done("careful", `"content":"This is a si"`, "length", `,"prompt_eval_count":8,"eval_count":3`)},
		"declined":        {`{"model":"prim",` + asked + `}`, 200, done("prim", `"content":"I'm sorry, but I cannot help with that."`, "stop", `,"prompt_eval_count":8,"eval_count":10`)},
		"filtered":        {`{"model":"filtered",` + asked + `}`, 200, done("filtered", `"content":""`, "stop", `,"prompt_eval_count":8`)},
		"nothing to say":  {`{"model":"careful","stream":false}`, 200, done("careful", `"content":""`, "load", "")},
		"JSON mode":       {`{"model":"plain","format":"json",` + asked + `}`, 200, done("plain", `"content":`+saying, "stop", `,"prompt_eval_count":8,"eval_count":29`)},
		"no schemas":      {`{"model":"plain","format":{},` + asked + `}`, 400, wrong("invalid format: a JSON Schema object is not supported by this model")},
		"another format":  {`{"model":"plain","format":"yaml",` + asked + `}`, 400, wrong(`invalid format: "yaml"; expected "json" or a valid JSON Schema object`)},
		"no model":        {`{` + asked + `}`, 400, wrong("model is required")},
		"a stream":        {`{"model":"careful","messages":[{"role":"user","content":"x"}]}`, 400, wrong("the simulator does not stream: set stream to false")},
		"a small context": {`{"model":"careful","truncate":false,"options":{"num_ctx":7},` + asked + `}`, 400, wrong("the input length exceeds the context length")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := s.post(t, ollamaPath, test.body)
			for _, name := range []string{"created_at", "total_duration", "eval_duration"} {
				delete(got.body, name)
			}
			got.is(t, test.status, test.want)
		})
	}
	s.post(t, ollamaPath, `{"model":"cached",`+asked+`}`)
	if got := s.post(t, ollamaPath, `{"model":"cached",`+asked+`}`); got.status != 200 || got.body["prompt_eval_count"] != nil {
		t.Errorf("a prompt that is cached: got %+v, want no count", got)
	}
}

// TestOllamaForgetsInSilence sends more than a context holds.
func TestOllamaForgetsInSilence(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	long := strings.Repeat("word ", 4*contextTokens/5)
	ask := func(more string, contents ...string) (words string, input any) {
		turns := []message{{"system", "Be brief."}}
		for _, content := range contents {
			turns = append(turns, message{"user", content})
		}
		got := s.post(t, ollamaPath, `{"model":"careful","stream":false,`+more+`"messages":`+encode(turns)+`}`)
		text, _ := at(got.body, "message", "content").(string)
		_, rest, _ := strings.Cut(text, "I was shown ")
		words, _, _ = strings.Cut(rest, " words")
		return words, got.body["prompt_eval_count"]
	}
	for name, test := range map[string]struct {
		more     string
		contents []string
		words    string
		input    any
	}{
		"the oldest":             {"", []string{long, "Say something."}, "4", 15.0},
		"the beginning":          {"", []string{long + "and more"}, "3274", 4096.0},
		"nothing, with room":     {`"options":{"num_ctx":9000},`, []string{long, "Say something."}, "3280", 4114.0},
		"nothing, that is short": {"", []string{"Please.", "Say something."}, "5", 21.0},
	} {
		if words, input := ask(test.more, test.contents...); words != test.words || input != test.input {
			t.Errorf("%s: got %s words, %v tokens, want %s, %v", name, words, input, test.words, test.input)
		}
	}
}

func TestOllamaFailures(t *testing.T) {
	t.Parallel()
	for failure, want := range map[Failure]told{
		RateLimited:      {429, "too many requests"},
		QuotaDaily:       {429, "you've reached your daily usage limit, please try again tomorrow"},
		QuotaBilling:     {402, "payment required"},
		SpendLimit:       {402, "payment required"},
		Overloaded:       {503, "server busy, please try again.  maximum pending requests exceeded"},
		ServerError:      {500, "llama runner process has terminated: exit status 2"},
		FailedIn200:      {200, "an error was encountered while running the model: unexpected EOF"},
		ContextLength:    {400, "the input length exceeds the context length"},
		Refused:          {400, "this request is refused"},
		Auth:             {401, "unauthorized"},
		ModelUnavailable: {404, "model 'careful' not found"},
		BadRequest:       {400, "invalid options: temperature"},
	} {
		got := start(t, always(failure)).post(t, ollamaPath, `{"model":"careful","stream":false,"messages":[{"role":"user","content":"x"}]}`)
		got.is(t, want.status, fmt.Sprintf(`{"error":%q}`, want.body))
		for name := range got.header {
			if strings.Contains(name, "Retry") || strings.Contains(name, "Ratelimit") {
				t.Errorf("header %s: want none", name)
			}
		}
	}
	got := start(t, always(Loading)).post(t, ollamaPath, `{"model":"careful","stream":false,"messages":[{"role":"user","content":"x"}]}`)
	if got.status != 200 || got.body["done_reason"] != "load" || got.body["done"] != true || at(got.body, "message", "content") != "" {
		t.Errorf("loading: got %+v", got)
	}
}
