package conformance

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genai"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/generate"
)

// google is a client below url. What it takes from the environment is all given.
func google(t *testing.T, url string) *genai.Models { return googleThrough(t, url, httpClient(t)) }

func googleThrough(t *testing.T, url string, through *http.Client) *genai.Models {
	t.Helper()
	client, err := genai.NewClient(t.Context(), &genai.ClientConfig{
		Backend: genai.BackendGeminiAPI, APIKey: key, HTTPClient: through, HTTPOptions: genai.HTTPOptions{BaseURL: url},
	})
	if err != nil {
		t.Fatal(err)
	}
	return client.Models
}

// googleSends are in what its SDK differs in every request.
var googleSends = reasons{
	"header.User-Agent":        "each names itself",
	"header.X-Goog-Api-Client": "the SDK names itself twice",
	"header.Accept":            "ours says what it reads",
}

func TestTheGenerateDialectSendsWhatGooglesSDKSends(t *testing.T) {
	t.Parallel()
	const answer = `{"candidates":[{"content":{"parts":[{"text":"{}"}],"role":"model"},"finishReason":"STOP","index":0}],"modelVersion":"careful"}`
	zero := 0.0
	empty := reasons{"body.generationConfig": "the SDK sends an empty one with any setting"}
	for name, test := range map[string]struct {
		contents []*genai.Content
		settings *genai.GenerateContentConfig
		ours     providers.Request
		known    providers.Capabilities
		differ   reasons
	}{
		"plain": {},
		"system and user": {
			settings: &genai.GenerateContentConfig{SystemInstruction: genai.NewContentFromText(system, genai.RoleUser)},
			ours:     providers.Request{Messages: conversation()},
			differ:   empty.with(reasons{"body.systemInstruction.role": "it says nothing of an instruction, and Google's examples leave it out"}),
		},
		"images": {
			contents: []*genai.Content{genai.NewContentFromParts([]*genai.Part{
				genai.NewPartFromText(prompt[:5]), genai.NewPartFromBytes(decoded(t, image), "image/png"), genai.NewPartFromText(prompt[5:]),
			}, genai.RoleUser)},
			ours: pictured(""),
		},
		"log probabilities": {
			settings: &genai.GenerateContentConfig{ResponseLogprobs: true, Logprobs: genai.Ptr[int32](20)},
			ours:     providers.Request{LogProbs: true},
		},
		"a repair": {
			contents: []*genai.Content{
				genai.NewContentFromText(prompt, genai.RoleUser), genai.NewContentFromText("a?", genai.RoleModel), genai.NewContentFromText("JSON, please.", genai.RoleUser),
			},
			ours: providers.Request{Messages: repair()},
		},
		"bounds": {
			settings: &genai.GenerateContentConfig{MaxOutputTokens: 500, Temperature: genai.Ptr[float32](0)},
			ours:     providers.Request{MaxOutputTokens: 500, Temperature: &zero},
		},
		"effort of Gemini 3": {
			settings: &genai.GenerateContentConfig{ThinkingConfig: &genai.ThinkingConfig{ThinkingLevel: genai.ThinkingLevelLow, IncludeThoughts: true}},
			ours:     providers.Request{ReasoningEffort: "low", Reason: true},
			known:    providers.Capabilities{Reasoning: providers.ReasoningLevel},
		},
		"effort of Gemini 2.5": {
			settings: &genai.GenerateContentConfig{ThinkingConfig: &genai.ThinkingConfig{ThinkingBudget: genai.Ptr[int32](8192)}},
			ours:     providers.Request{ReasoningEffort: "medium"},
			known:    providers.Capabilities{Reasoning: providers.ReasoningBudget},
		},
		"no reasoning": {
			settings: &genai.GenerateContentConfig{ThinkingConfig: &genai.ThinkingConfig{ThinkingBudget: genai.Ptr[int32](0)}},
			ours:     providers.Request{ReasoningEffort: "none"},
			known:    providers.Capabilities{Reasoning: providers.ReasoningBudget},
		},
		"reasoning that shows": {
			settings: &genai.GenerateContentConfig{ThinkingConfig: &genai.ThinkingConfig{ThinkingBudget: genai.Ptr[int32](-1), IncludeThoughts: true}},
			ours:     providers.Request{Reason: true},
			known:    providers.Capabilities{Reasoning: providers.ReasoningBudget},
		},
		"schema": {
			settings: &genai.GenerateContentConfig{ResponseMIMEType: "application/json", ResponseJsonSchema: json.RawMessage(verdict)},
			ours:     providers.Request{Schema: verdictSchema()},
		},
		"search": {
			settings: &genai.GenerateContentConfig{Tools: []*genai.Tool{{GoogleSearch: &genai.GoogleSearch{}}}},
			ours:     providers.Request{Search: true},
			known:    providers.Capabilities{Search: "googleSearch"},
			differ:   empty,
		},
		"search and schema": {
			settings: &genai.GenerateContentConfig{
				Tools:            []*genai.Tool{{GoogleSearch: &genai.GoogleSearch{}}},
				ToolConfig:       &genai.ToolConfig{IncludeServerSideToolInvocations: genai.Ptr(true)},
				ResponseMIMEType: "application/json", ResponseJsonSchema: json.RawMessage(verdict),
			},
			ours:  providers.Request{Search: true, Schema: verdictSchema()},
			known: providers.Capabilities{Search: "googleSearch", JSONWithSearch: true},
		},
		"named": {
			ours:   providers.Request{IdempotencyID: "run-1"},
			differ: reasons{"header.X-Client-Request-Id": "for the logs of proxies"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sdk := func(url string) error {
				contents := test.contents
				if contents == nil {
					contents = genai.Text(prompt)
				}
				_, err := google(t, url).GenerateContent(t.Context(), "careful", contents, test.settings)
				return err
			}
			ours := func(url string) error {
				provider, err := generate.New(generate.Config{BaseURL: url, HTTPClient: httpClient(t), Capabilities: known(test.known)})
				if err != nil {
					return err
				}
				_, err = provider.Call(t.Context(), complete(test.ours))
				return err
			}
			sameRequests(t, []string{answer}, sdk, ours, googleSends.with(test.differ))
		})
	}
}

// keeping keeps the body of the latest answer, which Google's SDK does not show.
type keeping struct {
	through http.RoundTripper
	body    []byte
}

// RoundTrip is that of an http.RoundTripper.
func (k *keeping) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := k.through.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	k.body, err = io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(k.body))
	return resp, err
}

// faithfulGoogle fails where an answer has a field that Google's SDK does not know,
// or one of another type. Google requires none.
func faithfulGoogle(t *testing.T, body []byte) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&genai.GenerateContentResponse{}); err != nil {
		t.Errorf("%v in %s", err, body)
	}
}

func TestGooglesSDKReadsSimulatedAnswers(t *testing.T) {
	t.Parallel()
	thinking := &genai.ThinkingConfig{ThinkingLevel: genai.ThinkingLevelLow, IncludeThoughts: true}
	for name, test := range map[string]struct {
		text      string
		settings  *genai.GenerateContentConfig
		behaviour simulator.Behaviour
		finish    genai.FinishReason // STOP when empty
		contains  string
		thoughts  bool // are shown
		searches  bool
	}{
		"prose": {text: prompt, contains: "simulated answer"},
		"system and user": {
			text: twoDocuments, contains: better,
			settings: &genai.GenerateContentConfig{
				SystemInstruction: genai.NewContentFromText(system, genai.RoleUser),
				ResponseMIMEType:  "application/json", ResponseJsonSchema: json.RawMessage(verdict),
			},
		},
		"reasoning": {text: prompt, settings: &genai.GenerateContentConfig{ThinkingConfig: thinking}, contains: "simulated", thoughts: true},
		"search": {
			text: prompt, contains: "simulated", searches: true,
			settings: &genai.GenerateContentConfig{Tools: []*genai.Tool{{GoogleSearch: &genai.GoogleSearch{}}}},
		},
		"search not used": {
			text: prompt, contains: "simulated", behaviour: simulator.Behaviour{UngroundedRate: 1},
			settings: &genai.GenerateContentConfig{Tools: []*genai.Tool{{GoogleSearch: &genai.GoogleSearch{}}}},
		},
		"truncated": {text: prompt, settings: &genai.GenerateContentConfig{MaxOutputTokens: 4}, finish: genai.FinishReasonMaxTokens, contains: "This is"},
		"refused":   {text: prompt, behaviour: simulator.Behaviour{RefuseRate: 1}, finish: genai.FinishReasonProhibitedContent},
		"filtered":  {text: prompt, behaviour: simulator.Behaviour{FilterRate: 1}, finish: genai.FinishReasonSafety},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := httpClient(t)
			kept := &keeping{through: client.Transport}
			client.Transport = kept
			server := simulated(t, simulator.Config{Keys: []string{key}, Behaviour: test.behaviour})
			answer, err := googleThrough(t, server.URL, client).GenerateContent(t.Context(), "careful", genai.Text(test.text), test.settings)
			if err != nil {
				t.Fatal(err)
			}
			faithfulGoogle(t, kept.body)
			if len(answer.Candidates) != 1 || answer.ModelVersion != "careful" || answer.ResponseID == "" {
				t.Fatalf("got %s", kept.body)
			}
			candidate, usage := answer.Candidates[0], answer.UsageMetadata
			if want := cmp.Or(test.finish, genai.FinishReasonStop); candidate.FinishReason != want || !strings.Contains(answer.Text(), test.contains) {
				t.Errorf("got %s, want %q said and %q", kept.body, test.contains, want)
			}
			shown := candidate.Content != nil && slices.ContainsFunc(candidate.Content.Parts, func(p *genai.Part) bool { return p.Thought && p.Text != "" })
			if shown != test.thoughts || usage.ThoughtsTokenCount > 0 != test.thoughts {
				t.Errorf("got %s, want thoughts: %v", kept.body, test.thoughts)
			}
			if usage.PromptTokenCount == 0 || usage.CandidatesTokenCount == 0 && test.contains != "" || usage.ToolUsePromptTokenCount > 0 != test.searches ||
				usage.TotalTokenCount != usage.PromptTokenCount+usage.CandidatesTokenCount+usage.ThoughtsTokenCount+usage.ToolUsePromptTokenCount {
				t.Errorf("usage: got %s", kept.body)
			}
			if problem := ungrounded(candidate.GroundingMetadata, answer.Text()); test.searches != (problem == "") {
				t.Errorf("got %s, want searches: %v (%s)", kept.body, test.searches, problem)
			}
		})
	}
}

// ungrounded says what is missing of the evidence that text rests on a search;
// empty: nothing.
func ungrounded(g *genai.GroundingMetadata, text string) string {
	switch {
	case g == nil:
		return "no grounding"
	case len(g.WebSearchQueries) == 0 || g.SearchEntryPoint == nil || len(g.GroundingChunks) == 0 || len(g.GroundingSupports) == 0:
		return "a part of the grounding is missing"
	}
	for _, chunk := range g.GroundingChunks {
		if chunk.Web == nil || chunk.Web.URI == "" || chunk.Web.Title == "" {
			return "a chunk without a page"
		}
	}
	for _, support := range g.GroundingSupports {
		segment := support.Segment
		if text[segment.StartIndex:segment.EndIndex] != segment.Text || len(support.ConfidenceScores) != len(support.GroundingChunkIndices) {
			return fmt.Sprintf("a support of what is not in the text: %q", segment.Text)
		}
		for _, i := range support.GroundingChunkIndices {
			if int(i) >= len(g.GroundingChunks) {
				return "a support by no chunk"
			}
		}
	}
	return ""
}

func TestGooglesSDKReadsABlockedPrompt(t *testing.T) {
	t.Parallel()
	answer, err := google(t, simulated(t, failing(simulator.Refused)).URL).GenerateContent(t.Context(), "careful", genai.Text(prompt), nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer.PromptFeedback == nil || answer.PromptFeedback.BlockReason != genai.BlockedReasonProhibitedContent || len(answer.Candidates) != 0 {
		t.Errorf("got %+v, want no candidate and the reason why the prompt is blocked", answer)
	}
}

// googleFailures are how an error of Google's SDK tells each failure. Details has
// the types of the details that must be there.
var googleFailures = map[simulator.Failure]genai.APIError{
	simulator.RateLimited:      {Code: 429, Status: "RESOURCE_EXHAUSTED", Message: "quota"},
	simulator.QuotaDaily:       {Code: 429, Status: "RESOURCE_EXHAUSTED", Message: "quota"},
	simulator.QuotaBilling:     {Code: 429, Status: "RESOURCE_EXHAUSTED", Message: "credits"},
	simulator.Overloaded:       {Code: 503, Status: "UNAVAILABLE", Message: "overloaded"},
	simulator.ServerError:      {Code: 500, Status: "INTERNAL", Message: "internal error"},
	simulator.ContextLength:    {Code: 400, Status: "INVALID_ARGUMENT", Message: "input token count"},
	simulator.Auth:             {Code: 400, Status: "INVALID_ARGUMENT", Message: "API key not valid"},
	simulator.ModelUnavailable: {Code: 404, Status: "NOT_FOUND", Message: "models/careful is not found"},
	simulator.BadRequest:       {Code: 400, Status: "INVALID_ARGUMENT", Message: "invalid argument"},
}

func TestGooglesSDKReadsSimulatedFailures(t *testing.T) {
	t.Parallel()
	quota := map[simulator.Failure]string{
		simulator.RateLimited: "GenerateRequestsPerMinutePerProjectPerModel",
		simulator.QuotaDaily:  "GenerateRequestsPerDayPerProjectPerModel",
	}
	for failure, want := range googleFailures {
		t.Run(string(failure), func(t *testing.T) {
			t.Parallel()
			_, err := google(t, simulated(t, failing(failure)).URL).GenerateContent(t.Context(), "careful", genai.Text(prompt), nil)
			details := googleFailed(t, err, want)
			if got := details.quota; got != quota[failure] {
				t.Errorf("quota: got %q, want %q", got, quota[failure])
			}
			if failure != simulator.QuotaDaily && details.retryDelay != "2s" { // with a day's it is said wrongly, as Google does
				t.Errorf("hint: got %q, want 2s", details.retryDelay)
			}
		})
	}
}

func TestGooglesSDKReadsWhatTheSimulatorRejects(t *testing.T) {
	t.Parallel()
	schema := &genai.GenerateContentConfig{ResponseMIMEType: "application/json", ResponseJsonSchema: json.RawMessage(verdict)}
	for name, test := range map[string]struct {
		config   simulator.Config
		model    string // careful when empty
		settings *genai.GenerateContentConfig
		calls    int // the last one fails; 0: the first
		want     genai.APIError
	}{
		"another key":   {config: simulator.Config{Keys: []string{"sk-other"}}, want: googleFailures[simulator.Auth]},
		"unknown model": {model: "none", want: genai.APIError{Code: 404, Status: "NOT_FOUND"}},
		"schema": {
			config: simulator.Config{Behaviour: simulator.Behaviour{WithoutSchemas: true}}, settings: schema,
			want: genai.APIError{Code: 400, Status: "INVALID_ARGUMENT", Message: "JSON mode"},
		},
		"search and JSON": {
			settings: &genai.GenerateContentConfig{ResponseMIMEType: "application/json", Tools: []*genai.Tool{{GoogleSearch: &genai.GoogleSearch{}}}},
			want:     genai.APIError{Code: 400, Status: "INVALID_ARGUMENT", Message: "Tool use"},
		},
		"longer than the window": {config: simulator.Config{Behaviour: simulator.Behaviour{ContextWindow: 5}}, want: googleFailures[simulator.ContextLength]},
		"rate": {
			config: simulator.Config{Limits: simulator.Limits{Requests: simulator.Rates{{N: 1, Window: time.Hour}}}},
			calls:  2, want: googleFailures[simulator.RateLimited],
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			models := google(t, simulated(t, test.config).URL)
			var err error
			for range max(test.calls, 1) {
				_, err = models.GenerateContent(t.Context(), cmp.Or(test.model, "careful"), genai.Text(prompt), test.settings)
			}
			googleFailed(t, err, test.want)
		})
	}
}

// googleDetails is what an error's details say.
type googleDetails struct{ quota, retryDelay string }

// googleFailed checks an error of Google's SDK; want.Message is a part of its message.
func googleFailed(t *testing.T, err error, want genai.APIError) googleDetails {
	t.Helper()
	var got genai.APIError
	if !errors.As(err, &got) {
		t.Fatalf("got %v, want an API error", err)
	}
	if got.Code != want.Code || got.Status != want.Status || !strings.Contains(got.Message, want.Message) {
		t.Errorf("got %v, want %d %s and %q in the message", got, want.Code, want.Status, want.Message)
	}
	raw, err := json.Marshal(got.Details)
	if err != nil {
		t.Fatal(err)
	}
	var details []struct {
		RetryDelay string `json:"retryDelay"`
		Violations []struct {
			QuotaID string `json:"quotaId"`
		} `json:"violations"`
	}
	if err := json.Unmarshal(raw, &details); err != nil {
		t.Fatal(err)
	}
	var said googleDetails
	for _, d := range details {
		said.retryDelay += d.RetryDelay
		for _, v := range d.Violations {
			said.quota += v.QuotaID
		}
	}
	return said
}
