package simulator

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const generatePath = "/v1beta/models/careful:generateContent"

// sayings are what is answered and shown to the prompt "Say something."
const (
	saying   = `"This is a simulated answer. I was shown 2 words and 0 documents, and no verdict was asked that I know how to give."`
	thinking = `"I read each text once from its beginning to its end, count the faults that can be shown in it, and weigh them by their kind and by its length."`
)

func TestGenerateOnTheWire(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Models: map[string]Model{
		"gemini-3-pro": {}, "gemini-2.5-flash": {},
		"mute":          {Behaviour: &Behaviour{SearchWithJSON: SearchIgnored}},
		"lazy":          {Behaviour: &Behaviour{UngroundedRate: 1, UnreasonedRate: 1}},
		"prim":          {Behaviour: &Behaviour{RefuseRate: 1}},
		"filtered":      {Behaviour: &Behaviour{FilterRate: 1}},
		"short":         {Behaviour: &Behaviour{TruncateRate: 1}},
		"plain":         {Behaviour: &Behaviour{WithoutSchemas: true}},
		"small":         {Behaviour: &Behaviour{ContextWindow: 7}},
		"gemini-3-wary": {Behaviour: &Behaviour{SearchWithJSON: SearchRefused}},
	}})
	const (
		asked     = `"contents":[{"role":"user","parts":[{"text":"Say something."}]}]`
		searching = `,"tools":[{"googleSearch":{}}]`
		shown     = `,"toolConfig":{"includeServerSideToolInvocations":true}`
		grounded  = `{"webSearchQueries":["Say something."],"searchEntryPoint":{"renderedContent":"<div>Say something.</div>"},
			"groundingChunks":[{"web":{"uri":"https://library.example/78f8044a78b0e79f","title":"A page of the library"}},{"web":{"uri":"https://gazette.example/d89a7e7d5254b73f","title":"A page of the gazette"}}],
			"groundingSupports":[{"segment":{"endIndex":114,"text":` + saying + `},"groundingChunkIndices":[0,1],"confidenceScores":[0.9,0.9]}]}`
		invalid = `{"error":{"code":400,"status":"INVALID_ARGUMENT","message":%q}}`
		json    = `,"generationConfig":{"responseMimeType":"application/json"}`
	)
	wrong := func(message string) string { return fmt.Sprintf(invalid, message) }
	plain := func(model, finish, text string, spent int) string {
		return fmt.Sprintf(`{"candidates":[{"content":{"role":"model","parts":[{"text":%s}]},"finishReason":%q,"index":0}],
			"usageMetadata":{"promptTokenCount":8,"candidatesTokenCount":%d,"totalTokenCount":%d},"modelVersion":%q}`, text, finish, spent, 8+spent, model)
	}
	for name, test := range map[string]struct {
		model  string
		body   string
		status int
		want   string
	}{
		"an answer": {"careful", `{` + asked + `}`, 200, plain("careful", "STOP", saying, 29)},
		"thoughts that are shown": {
			"careful", `{` + asked + `,"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"HIGH"}}}`, 200,
			`{"candidates":[{"content":{"role":"model","parts":[{"text":` + thinking + `,"thought":true},{"text":` + saying + `,"thoughtSignature":"?"}]},"finishReason":"STOP","index":0}],
			"usageMetadata":{"promptTokenCount":8,"candidatesTokenCount":29,"thoughtsTokenCount":36,"totalTokenCount":73},"modelVersion":"careful"}`,
		},
		"thoughts that are not": {
			"careful", `{` + asked + `,"generationConfig":{"thinkingConfig":{"thinkingBudget":-1}}}`, 200,
			`{"candidates":[{"content":{"role":"model","parts":[{"text":` + saying + `,"thoughtSignature":"?"}]},"finishReason":"STOP","index":0}],
			"usageMetadata":{"promptTokenCount":8,"candidatesTokenCount":29,"thoughtsTokenCount":36,"totalTokenCount":73},"modelVersion":"careful"}`,
		},
		"a budget of nothing": {"careful", `{` + asked + `,"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}}`, 200, plain("careful", "STOP", saying, 29)},
		"a bound within the thoughts": {
			"careful", `{` + asked + `,"generationConfig":{"maxOutputTokens":20,"thinkingConfig":{"thinkingLevel":"LOW"}}}`, 200,
			`{"candidates":[{"content":{"role":"model"},"finishReason":"MAX_TOKENS","index":0}],
			"usageMetadata":{"promptTokenCount":8,"thoughtsTokenCount":20,"totalTokenCount":28},"modelVersion":"careful"}`,
		},
		"a search": {
			"careful", `{` + asked + searching + `}`, 200,
			`{"candidates":[{"content":{"role":"model","parts":[{"text":` + saying + `}]},"finishReason":"STOP","index":0,"groundingMetadata":` + grounded + `}],
			"usageMetadata":{"promptTokenCount":8,"toolUsePromptTokenCount":42,"candidatesTokenCount":29,"totalTokenCount":79},"modelVersion":"careful"}`,
		},
		"a search for JSON": {
			"gemini-3-pro", `{` + asked + searching + json + shown + `}`, 200,
			`{"candidates":[{"content":{"role":"model","parts":[{"toolCall":{"toolType":"GOOGLE_SEARCH_WEB","id":"0","args":{"queries":["Say something."]}}},{"toolResponse":{"toolType":"GOOGLE_SEARCH_WEB","id":"0","response":{}}},{"text":` + saying + `}]},"finishReason":"STOP","index":0,"groundingMetadata":` + grounded + `}],
			"usageMetadata":{"promptTokenCount":8,"toolUsePromptTokenCount":42,"candidatesTokenCount":29,"totalTokenCount":79},"modelVersion":"gemini-3-pro"}`,
		},
		"a search left out for JSON": {"gemini-3-pro", `{` + asked + searching + json + `}`, 200, plain("gemini-3-pro", "STOP", saying, 29)},
		"calls shown before 3":       {"gemini-2.5-flash", `{` + asked + searching + shown + `}`, 400, wrong("Tool call context circulation is not enabled for models/gemini-2.5-flash")},
		"JSON instead of a search":   {"mute", `{` + asked + searching + json + `}`, 200, plain("mute", "STOP", saying, 29)},
		"no evidence and no effort":  {"lazy", `{` + asked + searching + `,"generationConfig":{"thinkingConfig":{"includeThoughts":true}}}`, 200, plain("lazy", "STOP", saying, 29)},
		"declined": {
			"prim", `{` + asked + `}`, 200,
			`{"candidates":[{"finishReason":"PROHIBITED_CONTENT","index":0}],"usageMetadata":{"promptTokenCount":8,"candidatesTokenCount":10,"totalTokenCount":18},"modelVersion":"prim"}`,
		},
		"filtered": {
			"filtered", `{` + asked + `}`, 200,
			`{"candidates":[{"finishReason":"SAFETY","index":0}],"usageMetadata":{"promptTokenCount":8,"totalTokenCount":8},"modelVersion":"filtered"}`,
		},
		"truncated": {"short", `{` + asked + `}`, 200, plain("short", "MAX_TOKENS", `"This is a simulated answer. I was shown 2 words and 0 do"`, 14)},

		"search and JSON":               {"careful", `{` + asked + searching + json + `}`, 400, wrong("Tool use with a response mime type: 'application/json' is unsupported")},
		"search and JSON before 3":      {"gemini-2.5-flash", `{` + asked + searching + json + `}`, 400, wrong("Tool use with a response mime type: 'application/json' is unsupported")},
		"search and JSON, where asked":  {"gemini-3-wary", `{` + asked + searching + json + `}`, 400, wrong("Tool use with a response mime type: 'application/json' is unsupported")},
		"level and budget":              {"careful", `{` + asked + `,"generationConfig":{"thinkingConfig":{"thinkingBudget":5,"thinkingLevel":"LOW"}}}`, 400, wrong("You can only set only one of thinking budget and thinking level.")},
		"no contents":                   {"careful", `{}`, 400, wrong("* GenerateContentRequest.contents: contents is not specified")},
		"the role of another dialect":   {"careful", `{"contents":[{"role":"assistant","parts":[{"text":"x"}]}]}`, 400, wrong("Please use a valid role: user, model.")},
		"a field of another dialect":    {"careful", `{` + asked + `,"max_tokens":5}`, 400, wrong(`Invalid JSON payload received. json: unknown field "max_tokens"`)},
		"a tool of another dialect":     {"careful", `{` + asked + `,"tools":[{"web_search":{}}]}`, 400, wrong(`Invalid JSON payload received. Unknown name "web_search" at 'tools': Cannot find field.`)},
		"a schema without its type":     {"careful", `{` + asked + `,"generationConfig":{"responseJsonSchema":{}}}`, 400, wrong("A response schema needs response_mime_type application/json.")},
		"two schemas":                   {"careful", `{` + asked + `,"generationConfig":{"responseMimeType":"application/json","responseSchema":{},"responseJsonSchema":{}}}`, 400, wrong("Only one of response_schema and response_json_schema can be set.")},
		"a model that takes no schemas": {"plain", `{` + asked + `,"generationConfig":{"responseMimeType":"application/json","responseSchema":{}}}`, 400, wrong("JSON mode is not enabled for models/plain")},
		"a prompt over the window":      {"small", `{` + asked + `}`, 400, wrong("The input token count (8) exceeds the maximum number of tokens allowed (7).")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := s.post(t, "/v1beta/models/"+test.model+":generateContent", test.body)
			delete(got.body, "responseId")
			parts, _ := at(got.body, "candidates", 0, "content", "parts").([]any)
			for _, part := range parts {
				if part := part.(map[string]any); part["thoughtSignature"] != nil {
					part["thoughtSignature"] = "?"
				}
			}
			got.is(t, test.status, test.want)
		})
	}
	if got := s.post(t, "/v1beta/models/careful:streamGenerateContent", `{`+asked+`}`); got.status != http.StatusBadRequest {
		t.Errorf("another method: got %+v", got)
	}
}

func TestGenerateFailures(t *testing.T) {
	t.Parallel()
	const (
		form  = `{"error":{"code":%d,"status":%q,"message":%q%s}}`
		retry = `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}`
		empty = `"usageMetadata":{"promptTokenCount":5,"totalTokenCount":5},"modelVersion":"careful"}`
	)
	tell := func(code int, status, message string, details ...string) told {
		return told{code, fmt.Sprintf(form, code, status, message, `,"details":[`+strings.Join(append(details, retry), ",")+`]`)}
	}
	quota := func(id string) string {
		return `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"generativelanguage.googleapis.com/generate_content_requests","quotaId":"` + id + `","quotaDimensions":{"location":"global","model":"careful"}}]}`
	}
	for failure, want := range map[Failure]told{
		RateLimited: tell(429, "RESOURCE_EXHAUSTED", overQuota, quota("GenerateRequestsPerMinutePerProjectPerModel")),
		QuotaDaily: {429, strings.ReplaceAll(
			tell(429, "RESOURCE_EXHAUSTED", overQuota, quota("GenerateRequestsPerDayPerProjectPerModel")).body, `"34s"`, `"34.074824224s"`)},
		QuotaBilling:  tell(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted. Please go to AI Studio at https://ai.studio/projects to manage your project and billing."),
		SpendLimit:    tell(429, "RESOURCE_EXHAUSTED", "Your project has exceeded its monthly spending cap. Please go to AI Studio at https://ai.studio/spend to manage your project spend cap."),
		Overloaded:    tell(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
		Loading:       tell(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
		ServerError:   tell(500, "INTERNAL", "An internal error has occurred. Please retry."),
		ContextLength: tell(400, "INVALID_ARGUMENT", "The input token count (5) exceeds the maximum number of tokens allowed (2)."),
		Auth: tell(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.",
			`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com","metadata":{"service":"generativelanguage.googleapis.com"}}`),
		ModelUnavailable: tell(404, "NOT_FOUND", "models/careful is not found for API version v1beta, or is not supported for generateContent."),
		BadRequest:       tell(400, "INVALID_ARGUMENT", "Request contains an invalid argument."),
		Refused:          {200, `{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},` + empty},
		FailedIn200:      {200, `{` + empty},
	} {
		t.Run(string(failure), func(t *testing.T) {
			t.Parallel()
			got := start(t, always(failure)).post(t, generatePath, `{"contents":[{"role":"user","parts":[{"text":"x"}]}]}`)
			got.is(t, want.status, want.body)
			for name := range got.header {
				if strings.Contains(name, "Retry") || strings.Contains(name, "Ratelimit") {
					t.Errorf("header %s: want none", name)
				}
			}
		})
	}
}

// TestGenerateNamesTheQuota has requests meet limits that are kept.
func TestGenerateNamesTheQuota(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limits Limits
		quota  any
		delay  string // begins with; empty: what is left of a minute
	}{
		"requests":     {Limits{Requests: Rates{{N: 1, Window: time.Minute}}}, "GenerateRequestsPerMinutePerProjectPerModel", ""},
		"day":          {Limits{Requests: Rates{{N: 1, Window: 24 * time.Hour}}}, "GenerateRequestsPerDayPerProjectPerModel", "34.07"},
		"input tokens": {Limits{InputTokens: Rates{{N: 8, Window: time.Minute}}}, "GenerateContentInputTokensPerModelPerMinute", ""},
		"output":       {Limits{OutputTokens: Rates{{N: 40, Window: time.Minute}}}, "GenerateContentOutputTokensPerModelPerMinute", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{Limits: test.limits})
			const body = `{"contents":[{"parts":[{"text":"x"}]}]}`
			began := time.Now()
			s.post(t, generatePath, body)
			got := s.post(t, generatePath, body)
			if quota := at(got.body, "error", "details", 0, "violations", 0, "quotaId"); got.status != 429 || quota != test.quota {
				t.Errorf("got %+v, want quota %v", got, test.quota)
			}
			delay, _ := at(got.body, "error", "details", 1, "retryDelay").(string)
			if !strings.HasPrefix(delay, test.delay) || !strings.HasSuffix(delay, "s") {
				t.Errorf("delay: got %q, want %s…s", delay, test.delay)
			}
			if test.delay == "" && !isLeft(delay, time.Minute, began) {
				t.Errorf("delay: got %q, want what is left of a minute", delay)
			}
		})
	}
	s := start(t, Config{Limits: Limits{MaxInFlight: 1}, Behaviour: Behaviour{ThrottleRate: 1, Hints: HintNone}})
	if got := s.post(t, generatePath, `{"contents":[{"parts":[{"text":"x"}]}]}`); at(got.body, "error", "details", 1) != nil {
		t.Errorf("without hints: got %+v", got.body)
	}
}
