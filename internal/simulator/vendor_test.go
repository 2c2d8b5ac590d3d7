package simulator

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const askedChat = `{"model":"careful","messages":[{"role":"user","content":"Say something."}]%s}`

func TestChatEvidence(t *testing.T) {
	t.Parallel()
	const (
		citations = `[{"type":"url_citation","url_citation":{"start_index":0,"end_index":114,"url":"https://library.example/78f8044a78b0e79f","title":"A page of the library"}},
			{"type":"url_citation","url_citation":{"start_index":0,"end_index":114,"url":"https://gazette.example/d89a7e7d5254b73f","title":"A page of the gazette"}}]`
		searched = `"prompt_tokens":50,"completion_tokens":29,"total_tokens":79`
		plain    = `"prompt_tokens":8,"completion_tokens":29,"total_tokens":37`
		reasoned = `"prompt_tokens":8,"completion_tokens":65,"total_tokens":73`
		details  = `,"completion_tokens_details":{"reasoning_tokens":36}`
		cost     = `,"cost":0.000268`
	)
	for name, test := range map[string]struct {
		behaviour Behaviour
		asked     string
		// Of the answer.
		message, finish, usage, choice, body string
	}{
		"OpenAI's search":      {Behaviour{}, `,"web_search_options":{}`, `"content":` + saying + `,"refusal":null,"annotations":` + citations, "stop", searched, "", ""},
		"no evidence":          {Behaviour{UngroundedRate: 1}, `,"web_search_options":{}`, `"content":` + saying + `,"refusal":null`, "stop", plain, "", ""},
		"OpenRouter's search":  {Behaviour{Vendor: OpenRouter}, `,"tools":[{"type":"openrouter:web_search"}]`, `"content":` + saying + `,"refusal":null,"annotations":` + citations, "stop", searched + `,"cost":0.000166`, `,"native_finish_reason":"stop"`, `,"provider":"Simulated"`},
		"OpenAI's reasoning":   {Behaviour{}, `,"reasoning_effort":"low"`, `"content":` + saying + `,"refusal":null`, "stop", reasoned + details, "", ""},
		"an effort of nothing": {Behaviour{}, `,"reasoning_effort":"none"`, `"content":` + saying + `,"refusal":null`, "stop", plain, "", ""},
		"OpenRouter's reasoning": {
			Behaviour{Vendor: OpenRouter}, `,"reasoning":{"effort":"low"}`,
			`"content":` + saying + `,"refusal":null,"reasoning":` + thinking + `,"reasoning_details":[{"type":"reasoning.text","text":` + thinking + `,"format":"unknown","index":0}]`, "stop",
			reasoned + details + cost, `,"native_finish_reason":"stop"`, `,"provider":"Simulated"`,
		},
		"OpenRouter's, kept back": {Behaviour{Vendor: OpenRouter}, `,"reasoning":{"exclude":true}`, `"content":` + saying + `,"refusal":null`, "stop", reasoned + details + cost, `,"native_finish_reason":"stop"`, `,"provider":"Simulated"`},
		"vLLM's reasoning":        {Behaviour{Vendor: Compatible}, `,"reasoning_effort":"low"`, `"content":` + saying + `,"refusal":null,"reasoning_content":` + thinking, "stop", reasoned, "", ""},
		"not reasoned":            {Behaviour{Vendor: Compatible, UnreasonedRate: 1}, `,"reasoning_effort":"low"`, `"content":` + saying + `,"refusal":null`, "stop", plain, "", ""},
		"declined":                {Behaviour{RefuseRate: 1}, "", `"content":null,"refusal":"I'm sorry, but I cannot help with that."`, "stop", `"prompt_tokens":8,"completion_tokens":10,"total_tokens":18`, "", ""},
		"filtered by Azure": {
			Behaviour{Vendor: Azure, FilterRate: 1}, "", `"content":"","refusal":null`, "content_filter", `"prompt_tokens":8,"completion_tokens":0,"total_tokens":8`,
			`,"content_filter_results":{"hate":{"filtered":true,"severity":"safe"}}`, `,"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := start(t, Config{Behaviour: test.behaviour}).post(t, chatPath, fmt.Sprintf(askedChat, test.asked))
			delete(got.body, "id")
			delete(got.body, "created")
			got.is(t, 200, `{"object":"chat.completion","model":"careful","choices":[{"index":0,"logprobs":null,"message":{"role":"assistant",`+test.message+`},
				"finish_reason":"`+test.finish+`"`+test.choice+`}],"usage":{`+test.usage+`}`+test.body+`}`)
		})
	}
	got := start(t, Config{Behaviour: Behaviour{SearchWithJSON: SearchRefused}}).post(t, chatPath, fmt.Sprintf(askedChat, `,"web_search_options":{},"response_format":{"type":"json_object"}`))
	if got.status != 400 || at(got.body, "error", "message") != "Web Search cannot be used with JSON mode." {
		t.Errorf("search and JSON: got %+v", got)
	}
}

// isLeft reports whether text can be what is left of a time that started after began.
func isLeft(text string, whole time.Duration, began time.Time) bool {
	left, err := time.ParseDuration(text)
	return err == nil && left <= whole && left >= whole-time.Since(began)
}

func TestVendorFailures(t *testing.T) {
	t.Parallel()
	openrouter := func(status int, message, more string) told {
		return told{status, fmt.Sprintf(`{"error":{"code":%d,"message":%q%s}}`, status, message, more)}
	}
	const upstream = `,"metadata":{"provider_name":"Simulated","raw":"careful is temporarily in trouble upstream. Please retry shortly."}`
	compatible := func(status int, kind, message string) told {
		return told{status, fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":%d}}`, message, kind, status)}
	}
	for vendor, failures := range map[Vendor]map[Failure]told{
		Azure: {
			RateLimited:      {429, `{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded call rate limit of your current OpenAI S0 pricing tier. Please retry after 34 seconds."}}`},
			QuotaDaily:       {429, `{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded call rate limit of your current OpenAI S0 pricing tier. Please retry after 86400 seconds."}}`},
			QuotaBilling:     {429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`},
			Refused:          {400, `{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"hate":{"filtered":true,"severity":"high"}}}}}`},
			Auth:             {401, `{"error":{"code":"401","message":"Access denied due to invalid subscription key or wrong API endpoint."}}`},
			ModelUnavailable: {404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`},
		},
		OpenRouter: {
			RateLimited:      openrouter(429, "Provider returned error", upstream),
			QuotaBilling:     openrouter(402, "Insufficient credits. Add more using https://openrouter.ai/settings/credits", ""),
			Overloaded:       openrouter(503, "Provider returned error", upstream),
			ServerError:      openrouter(502, "Provider returned error", upstream),
			FailedIn200:      {200, openrouter(502, "Provider returned error", upstream).body},
			QuotaDaily:       openrouter(429, "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day", `,"metadata":{"headers":"?"}`),
			Refused:          openrouter(403, "Your input was flagged by moderation.", `,"metadata":{"reasons":["violence"],"flagged_input":"…","provider_name":"Simulated","model_slug":"careful"}`),
			ModelUnavailable: openrouter(404, "No endpoints found for careful.", ""),
		},
		Compatible: {
			FailedIn200:   {200, `{"error":"Model unloaded."}`},
			Auth:          {401, `{"error":"Unauthorized"}`},
			ContextLength: compatible(400, "BadRequestError", "This model's maximum context length is 4 tokens. However, your request has 8 input tokens. Please reduce the length of the input messages."),
			BadRequest:    compatible(400, "BadRequestError", "Invalid value in the request."),
			Loading:       compatible(503, "ServiceUnavailableError", "Loading model"),
		},
	} {
		for failure, want := range failures {
			t.Run(fmt.Sprint(vendor, " ", failure), func(t *testing.T) {
				t.Parallel()
				config := always(failure)
				config.Vendor = vendor
				began := time.Now()
				got := start(t, config).post(t, chatPath, fmt.Sprintf(askedChat, ""))
				if metadata, ok := at(got.body, "error", "metadata").(map[string]any); ok && metadata["headers"] != nil {
					reset, _ := at(metadata, "headers", "X-RateLimit-Reset").(string)
					ms, err := strconv.ParseInt(reset, 10, 64)
					at, least, most := time.UnixMilli(ms), began.Add(34*time.Second), time.Now().Add(34*time.Second)
					early := at.Before(least.Truncate(time.Millisecond))
					if err != nil || early || at.After(most) || got.header.Get("X-RateLimit-Reset") == "" {
						t.Errorf("reset: got %q, %v, %v, want one in 34 seconds", reset, err, got.header)
					}
					metadata["headers"] = "?"
				}
				got.is(t, want.status, want.body)
				if hinted := got.header.Get("Retry-After") != ""; hinted != (vendor != Compatible) {
					t.Errorf("hint: got %v", got.header)
				}
			})
		}
	}
}

func TestVendorHeaders(t *testing.T) {
	t.Parallel()
	names := []string{
		"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests",
		"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens", "Retry-After",
	}
	for name, test := range map[string]struct {
		behaviour Behaviour
		path      string
		want      []string
	}{
		"Azure in chat":       {Behaviour{Vendor: Azure}, chatPath, []string{"1", "0", "3600", "-1", "-1", "0", "3600"}},
		"Azure in responses":  {Behaviour{Vendor: Azure}, responsesPath, []string{"-1", "-1", "0", "-1", "-1", "0", ""}},
		"Azure without":       {Behaviour{Vendor: Azure, WithoutLimitHeaders: true}, chatPath, []string{"", "", "", "", "", "", "3600"}},
		"OpenRouter":          {Behaviour{Vendor: OpenRouter}, chatPath, []string{"", "", "", "", "", "", "3600"}},
		"vLLM":                {Behaviour{Vendor: Compatible}, chatPath, []string{"", "", "", "", "", "", ""}},
		"OpenAI in responses": {Behaviour{Hints: HintSeconds}, responsesPath, []string{"1", "0", "1h0m0s", "", "", "", "3600"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{Limits: Limits{Requests: Rates{{N: 1, Window: time.Hour}}}, Behaviour: test.behaviour})
			const body = `{"model":"careful",%s:[{"role":"user","content":"x"}]}`
			field := map[string]string{chatPath: `"messages"`, responsesPath: `"input"`}[test.path]
			began := time.Now()
			s.post(t, test.path, fmt.Sprintf(body, field))
			got := s.post(t, test.path, fmt.Sprintf(body, field))
			values := make([]string, len(names))
			for i, name := range names {
				values[i] = got.header.Get(name)
				for unit, hour := range map[string]string{"": "1h0m0s", "s": "3600"} {
					if isLeft(values[i]+unit, time.Hour, began) { // a little has gone by
						values[i] = hour
					}
				}
			}
			if diff := cmp.Diff(test.want, values); diff != "" || got.status != 429 {
				t.Errorf("%d (-want +got):\n%s", got.status, diff)
			}
		})
	}
	s := start(t, Config{Keys: []string{"right"}})
	if got := s.post(t, chatPath, fmt.Sprintf(askedChat, ""), "Api-Key", "right"); got.status != 200 {
		t.Errorf("Azure's header for a key: got %+v", got)
	}
}
