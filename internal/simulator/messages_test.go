package simulator

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const messagesPath = "/v1/messages"

// version is the header that requests to Anthropic must have.
var version = []string{"Anthropic-Version", "2023-06-01"}

const (
	// firstHalf and secondHalf are the two blocks of an answer that cites.
	firstHalf  = `"This is a simulated answer. I was shown 2 words and 0 "`
	secondHalf = `"documents, and no verdict was asked that I know how to give."`
	searched   = `{"type":"server_tool_use","id":"srvtoolu","name":"web_search","input":{"query":"Say something."},"caller":{"type":"direct"}},
		{"type":"web_search_tool_result","tool_use_id":"srvtoolu","caller":{"type":"direct"},"content":[
		{"type":"web_search_result","url":"https://library.example/78f8044a78b0e79f","title":"A page of the library","encrypted_content":"sealed","page_age":null},
		{"type":"web_search_result","url":"https://gazette.example/d89a7e7d5254b73f","title":"A page of the gazette","encrypted_content":"sealed","page_age":null}]}`
	citations = `{"type":"web_search_result_location","url":"https://library.example/78f8044a78b0e79f","title":"A page of the library","encrypted_index":"sealed","cited_text":"This page is made up, like everything that the simulator finds."},
		{"type":"web_search_result_location","url":"https://gazette.example/d89a7e7d5254b73f","title":"A page of the gazette","encrypted_index":"sealed","cited_text":"This page is made up, like everything that the simulator finds."}`
)

// unsealed replaces what differs from call to call.
func unsealed(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = unsealed(v[i])
		}
	case map[string]any:
		for name, inner := range v {
			text, _ := inner.(string)
			switch {
			case name == "signature", strings.HasPrefix(name, "encrypted_"):
				v[name] = "sealed"
			case strings.HasPrefix(text, "srvtoolu_"):
				v[name] = "srvtoolu"
			default:
				v[name] = unsealed(inner)
			}
		}
	}
	return v
}

func TestMessagesOnTheWire(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Models: map[string]Model{
		"cached":   {Behaviour: &Behaviour{CachedShare: 0.5}},
		"lazy":     {Behaviour: &Behaviour{UnreasonedRate: 1}},
		"filtered": {Behaviour: &Behaviour{FilterRate: 1}},
		"prim":     {Behaviour: &Behaviour{RefuseRate: 1}},
		"small":    {Behaviour: &Behaviour{ContextWindow: 12}},
		"smaller":  {Behaviour: &Behaviour{ContextWindow: 7}},
		"plain":    {Behaviour: &Behaviour{WithoutSchemas: true}},
		"wary":     {Behaviour: &Behaviour{SearchWithJSON: SearchRefused}},
	}})
	const (
		asked     = `"messages":[{"role":"user","content":"Say something."}]`
		searching = `,"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":3}]`
		form      = `{"type":"message","role":"assistant","model":%q,"content":[%s],"stop_reason":%q,"stop_sequence":null,"stop_details":null,
			"usage":{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":0,"output_tokens":%d%s,"server_tool_use":{"web_search_requests":%d,"web_fetch_requests":0},
			"cache_creation":{"ephemeral_5m_input_tokens":%[5]d,"ephemeral_1h_input_tokens":0},"service_tier":"standard","inference_geo":"global"}}`
	)
	text := func(text string) string { return `{"type":"text","text":` + text + `}` }
	refusal := func(answer string) string {
		return strings.Replace(answer, `"stop_details":null`, `"stop_details":{"type":"refusal","category":null,"explanation":null}`, 1)
	}
	wrong := func(message string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":"invalid_request_error","message":%q}}`, message)
	}
	for name, test := range map[string]struct {
		body   string
		status int
		want   string
	}{
		"an answer": {`{"model":"careful","max_tokens":100,` + asked + `}`, 200, fmt.Sprintf(form, "careful", text(saying), "end_turn", 8, 0, 29, "", 0)},
		"a cached prompt": {
			`{"model":"cached","max_tokens":100,"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],` + asked + `}`, 200,
			fmt.Sprintf(form, "cached", text(strings.Replace(saying, "2 words", "4 words", 1)), "end_turn", 8, 7, 29, "", 0),
		},
		"thoughts": {
			`{"model":"careful","max_tokens":2000,"thinking":{"type":"adaptive"},` + asked + `}`, 200,
			fmt.Sprintf(form, "careful", `{"type":"thinking","thinking":`+thinking+`,"signature":"sealed"},`+text(saying), "end_turn", 8, 0, 65, `,"output_tokens_details":{"thinking_tokens":36}`, 0),
		},
		"thoughts that are kept back": {
			`{"model":"careful","max_tokens":2000,"thinking":{"type":"enabled","budget_tokens":1024,"display":"omitted"},` + asked + `}`, 200,
			fmt.Sprintf(form, "careful", `{"type":"thinking","thinking":"","signature":"sealed"},`+text(saying), "end_turn", 8, 0, 65, `,"output_tokens_details":{"thinking_tokens":36}`, 0),
		},
		"no thoughts though asked": {`{"model":"lazy","max_tokens":2000,"thinking":{"type":"adaptive"},` + asked + `}`, 200, fmt.Sprintf(form, "lazy", text(saying), "end_turn", 8, 0, 29, "", 0)},
		"a search": {
			`{"model":"careful","max_tokens":100,` + asked + searching + `}`, 200,
			fmt.Sprintf(form, "careful", searched+`,`+text(firstHalf)+`,{"type":"text","text":`+secondHalf+`,"citations":[`+citations+`]}`, "end_turn", 50, 0, 29, "", 1),
		},
		"declined":          {`{"model":"prim","max_tokens":100,` + asked + `}`, 200, refusal(fmt.Sprintf(form, "prim", text(`"I'm sorry, but I cannot help with that."`), "refusal", 8, 0, 10, "", 0))},
		"filtered":          {`{"model":"filtered","max_tokens":100,` + asked + `}`, 200, refusal(fmt.Sprintf(form, "filtered", "", "refusal", 8, 0, 0, "", 0))},
		"cut by its bound":  {`{"model":"careful","max_tokens":3,` + asked + `}`, 200, fmt.Sprintf(form, "careful", text(`"This is a si"`), "max_tokens", 8, 0, 3, "", 0)},
		"out of the window": {`{"model":"small","max_tokens":100,` + asked + `}`, 200, fmt.Sprintf(form, "small", text(`"This is a simula"`), "model_context_window_exceeded", 8, 0, 4, "", 0)},

		"over the window":         {`{"model":"smaller","max_tokens":100,` + asked + `}`, 400, wrong("prompt is too long: 8 tokens > 7 maximum")},
		"no bound":                {`{"model":"careful",` + asked + `}`, 400, wrong("max_tokens: Field required")},
		"a bound of nothing":      {`{"model":"careful","max_tokens":0,` + asked + `}`, 400, wrong("max_tokens: must be greater than or equal to 1")},
		"no model":                {`{"max_tokens":5,` + asked + `}`, 400, wrong("model: Field required")},
		"no messages":             {`{"model":"careful","max_tokens":5}`, 400, wrong("messages: at least one message is required")},
		"a system message":        {`{"model":"careful","max_tokens":5,"messages":[{"role":"system","content":"x"}]}`, 400, wrong("messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter, not \"system\" as an input message role.")},
		"an empty text":           {`{"model":"careful","max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":""}]}]}`, 400, wrong("messages: text content blocks must be non-empty")},
		"no content":              {`{"model":"careful","max_tokens":5,"messages":[{"role":"user","content":[]}]}`, 400, wrong("messages.0: all messages must have non-empty content except for the optional final assistant message")},
		"a small budget":          {`{"model":"careful","max_tokens":5,"thinking":{"type":"enabled","budget_tokens":5},` + asked + `}`, 400, wrong("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")},
		"a budget over the bound": {`{"model":"careful","max_tokens":1024,"thinking":{"type":"enabled","budget_tokens":1024},` + asked + `}`, 400, wrong("`max_tokens` must be greater than `thinking.budget_tokens`.")},
		"thinking and a tool":     {`{"model":"careful","max_tokens":1025,"thinking":{"type":"enabled","budget_tokens":1024},"tool_choice":{"type":"any"},` + asked + searching + `}`, 400, wrong("Thinking may not be enabled when tool_choice forces tool use.")},
		"thinking and a heat":     {`{"model":"careful","max_tokens":1025,"thinking":{"type":"enabled","budget_tokens":1024},"temperature":0.5,` + asked + `}`, 400, wrong("`temperature` may only be set to 1 when thinking is enabled.")},
		"a thought made up":       {`{"model":"careful","max_tokens":5,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"y"}]}]}`, 400, wrong("messages.1.content.0: Invalid `signature` in `thinking` block")},
		"a foreign field":         {`{"model":"careful","max_completion_tokens":5,` + asked + `}`, 400, wrong(`The request body is not valid JSON of a message: json: unknown field "max_completion_tokens"`)},
		// https://github.com/agentjido/req_llm/issues/302
		"bounds in a schema": {`{"model":"careful","max_tokens":5,"output_config":{"format":{"type":"json_schema","schema":{"type":"integer","minimum":1,"maximum":5}}},` + asked + `}`, 400, wrong("output_config.format.schema: For 'integer' type, properties maximum, minimum are not supported")},
		"no schemas":         {`{"model":"plain","max_tokens":5,"output_config":{"format":{"type":"json_schema","schema":{}}},` + asked + `}`, 400, wrong("output_config.format: structured outputs are not supported by this model")},
		"search and JSON":    {`{"model":"wary","max_tokens":5,"output_config":{"format":{"type":"json_schema","schema":{}}},` + asked + searching + `}`, 400, wrong("output_config.format: citations are not supported with structured outputs")},
		"an unknown model":   {`{"model":"gpt","max_tokens":5,` + asked + `}`, 404, `{"type":"error","error":{"type":"not_found_error","message":"The model \"gpt\" does not exist; want careful, average, careless or one in the simulator's configuration"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := s.post(t, messagesPath, test.body, version...)
			delete(got.body, "id")
			delete(got.body, "request_id")
			unsealed(got.body)
			got.is(t, test.status, test.want)
		})
	}
	got := s.post(t, messagesPath, `{"model":"careful","max_tokens":5,`+asked+`}`)
	if at(got.body, "error", "message") != "anthropic-version: header is required" {
		t.Errorf("without a version: got %+v", got.body)
	}
	first := s.post(t, messagesPath, `{"model":"cached","max_tokens":5,`+asked+`}`, version...)
	again := s.post(t, messagesPath, `{"model":"cached","max_tokens":5,`+asked+`}`, version...)
	if at(first.body, "usage", "cache_creation_input_tokens") != 4.0 || at(again.body, "usage", "cache_read_input_tokens") != 4.0 || at(again.body, "usage", "input_tokens") != 4.0 {
		t.Errorf("the cache: got %+v, then %+v", first.body, again.body)
	}
}

// TestMessagesPause sends back what came until the turn is over.
func TestMessagesPause(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Behaviour: Behaviour{Pauses: 2}})
	turns := []any{map[string]any{"role": "user", "content": "Say something."}}
	var reasons []any
	for range 3 {
		got := s.post(t, messagesPath, encode(map[string]any{
			"model": "careful", "max_tokens": 2000, "messages": turns, "thinking": map[string]any{"type": "adaptive"},
			"tools": []any{map[string]any{"type": "web_search_20260209", "name": "web_search"}},
		}), version...)
		if got.status != 200 {
			t.Fatalf("got %+v", got)
		}
		reasons = append(reasons, got.body["stop_reason"])
		turns = append(turns, map[string]any{"role": "assistant", "content": got.body["content"]})
	}
	if fmt.Sprint(reasons) != "[pause_turn pause_turn end_turn]" {
		t.Errorf("got %v", reasons)
	}
}

func TestMessagesSearchInVainOrNotAtAll(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Behaviour: Behaviour{UngroundedRate: 1}})
	ways := map[any]int{}
	for i := range 20 {
		got := s.post(t, messagesPath, fmt.Sprintf(`{"model":"careful","max_tokens":100,"messages":[{"role":"user","content":"Number %d."}],"tools":[{"type":"web_search_20250305","name":"web_search"}]}`, i), version...)
		ways[at(got.body, "content", 1, "content", "error_code")]++
		if searches := at(got.body, "usage", "server_tool_use", "web_search_requests"); searches != 0.0 {
			t.Errorf("searches: got %v, want 0", searches)
		}
	}
	if ways["unavailable"] == 0 || ways[nil] == 0 || len(ways) != 2 {
		t.Errorf("got %v, want some in vain and some without a search", ways)
	}
}

func TestMessagesFailures(t *testing.T) {
	t.Parallel()
	tell := func(status int, kind, message string) told {
		return told{status, fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, kind, message)}
	}
	for failure, want := range map[Failure]told{
		RateLimited:      tell(429, "rate_limit_error", "This request would exceed your organization's rate limit of 50 requests per minute."),
		QuotaDaily:       tell(429, "rate_limit_error", "Number of requests has exceeded your daily rate limit."),
		QuotaBilling:     tell(400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."),
		SpendLimit:       {429, `{"type":"error","error":{"type":"rate_limit_error","message":"Your organization has reached its monthly spend limit.","details":{"error_code":"enforced_spend_limit_reached"}}}`},
		Overloaded:       tell(529, "overloaded_error", "Overloaded"),
		Loading:          tell(529, "overloaded_error", "Overloaded"),
		ServerError:      tell(500, "api_error", "Internal server error"),
		FailedIn200:      tell(500, "api_error", "Internal server error"),
		ContextLength:    tell(400, "invalid_request_error", "prompt is too long: 5 tokens > 2 maximum"),
		Refused:          tell(400, "invalid_request_error", "Output blocked by content filtering policy"),
		Auth:             tell(401, "authentication_error", "invalid x-api-key"),
		ModelUnavailable: tell(404, "not_found_error", "model: careful"),
		BadRequest:       tell(400, "invalid_request_error", "messages: Input should be a valid list"),
	} {
		t.Run(string(failure), func(t *testing.T) {
			t.Parallel()
			got := start(t, always(failure)).post(t, messagesPath, `{"model":"careful","max_tokens":5,"messages":[{"role":"user","content":"x"}]}`, version...)
			id := got.header.Get("Request-Id")
			if got.body["request_id"] != id || id == "" || got.header.Get("Retry-After") != "34" || got.header.Get("Retry-After-Ms") != "" {
				t.Errorf("got %v, header %v", got.body, got.header)
			}
			delete(got.body, "request_id")
			got.is(t, want.status, want.body)
		})
	}
}

func TestMessagesLimitHeaders(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Limits: Limits{Requests: Rates{{N: 1, Window: time.Hour}}, InputTokens: Rates{{N: 100, Window: time.Minute}}}})
	const body = `{"model":"careful","max_tokens":5,"messages":[{"role":"user","content":"x"}]}`
	began := time.Now()
	s.post(t, messagesPath, body, version...)
	got := s.post(t, messagesPath, body, version...)
	h := got.header
	for name, want := range map[string]string{"Requests-Limit": "1", "Requests-Remaining": "0", "Input-Tokens-Limit": "100", "Input-Tokens-Remaining": "95"} {
		if h.Get("Anthropic-Ratelimit-"+name) != want {
			t.Errorf("%s: got %q, want %s; %v", name, h.Get("Anthropic-Ratelimit-"+name), want, h)
		}
	}
	reset, err := time.Parse(time.RFC3339, h.Get("Anthropic-Ratelimit-Requests-Reset"))
	if err != nil || reset.Before(began.Add(time.Hour)) || reset.After(time.Now().Add(time.Hour+time.Second)) {
		t.Errorf("reset: got %v, %v, want no sooner than an hour after %v", reset, err, began)
	}
	if seconds := h.Get("Retry-After"); got.status != 429 || !isLeft(seconds+"s", time.Hour, began) {
		t.Errorf("got %d, hint %q", got.status, seconds)
	}
}
