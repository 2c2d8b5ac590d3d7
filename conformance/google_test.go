package conformance

import (
	"encoding/json"
	"testing"

	"google.golang.org/genai"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/generate"
)

// google is a client below url. What it takes from the environment is all given.
func google(t *testing.T, url string) *genai.Models {
	t.Helper()
	client, err := genai.NewClient(t.Context(), &genai.ClientConfig{
		Backend: genai.BackendGeminiAPI, APIKey: key, HTTPClient: httpClient(t), HTTPOptions: genai.HTTPOptions{BaseURL: url},
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
		"named": {
			ours:   providers.Request{IdempotencyID: "run-1"},
			differ: reasons{"header.X-Client-Request-Id": "for the logs of what stands between"},
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
