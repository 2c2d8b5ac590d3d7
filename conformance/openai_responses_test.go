package conformance

import (
	"encoding/json"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/evalfleet/evalfleet/providers"
	dialect "github.com/evalfleet/evalfleet/providers/responses"
)

// responseParams keep nothing at the provider and cut nothing in silence, as every
// request of the dialect.
func responseParams(messages ...responses.ResponseInputItemUnionParam) responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model:      "careful",
		Input:      responses.ResponseNewParamsInputUnion{OfInputItemList: messages},
		Store:      openai.Bool(false),
		Truncation: responses.ResponseNewParamsTruncationDisabled,
	}
}

func said(role responses.EasyInputMessageRole, text string) responses.ResponseInputItemUnionParam {
	return responses.ResponseInputItemParamOfMessage(text, role)
}

func responseSchema(t *testing.T) responses.ResponseTextConfigParam {
	t.Helper()
	format := &responses.ResponseFormatTextJSONSchemaConfigParam{Name: "verdict", Strict: openai.Bool(true)}
	if err := json.Unmarshal([]byte(verdict), &format.Schema); err != nil {
		t.Fatal(err)
	}
	return responses.ResponseTextConfigParam{Format: responses.ResponseFormatTextConfigUnionParam{OfJSONSchema: format}}
}

const response = `{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"careful","output":[{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"{}","annotations":[]}]}]}`

func responsesDialect(t *testing.T, url string, capabilities providers.Capabilities) (*dialect.Provider, error) {
	return dialect.New(dialect.Config{BaseURL: url + "/v1", HTTPClient: httpClient(t), Capabilities: known(capabilities)})
}

func TestTheResponsesDialectSendsWhatOpenAIsSDKSends(t *testing.T) {
	t.Parallel()
	zero := 0.0
	for name, test := range map[string]struct {
		sdk    func(*responses.ResponseNewParams)
		ours   providers.Request
		known  providers.Capabilities
		differ reasons
	}{
		"plain": {},
		"system and user": {
			sdk:  func(p *responses.ResponseNewParams) { p.Instructions = openai.String(system) },
			ours: providers.Request{Messages: conversation()},
		},
		"a repair": {
			sdk: func(p *responses.ResponseNewParams) {
				p.Input.OfInputItemList = append(p.Input.OfInputItemList,
					said(responses.EasyInputMessageRoleAssistant, "a?"), said(responses.EasyInputMessageRoleUser, "JSON, please."))
			},
			ours: providers.Request{Messages: repair()},
		},
		"bounds": {
			sdk: func(p *responses.ResponseNewParams) {
				p.MaxOutputTokens, p.Temperature = openai.Int(500), openai.Float(0)
			},
			ours: providers.Request{MaxOutputTokens: 500, Temperature: &zero},
		},
		"effort": {
			sdk:  func(p *responses.ResponseNewParams) { p.Reasoning.Effort = shared.ReasoningEffortLow },
			ours: providers.Request{ReasoningEffort: "low"},
		},
		"reasoning that shows": {
			sdk: func(p *responses.ResponseNewParams) {
				p.Reasoning = shared.ReasoningParam{Effort: shared.ReasoningEffortMedium, Summary: shared.ReasoningSummaryAuto}
			},
			ours:  providers.Request{Reason: true},
			known: providers.Capabilities{Reasoning: providers.ReasoningEffort},
		},
		"schema": {
			sdk:  func(p *responses.ResponseNewParams) { p.Text = responseSchema(t) },
			ours: providers.Request{Schema: verdictSchema()},
		},
		"any JSON object": {
			sdk: func(p *responses.ResponseNewParams) {
				p.Text.Format = responses.ResponseFormatTextConfigUnionParam{OfJSONObject: &shared.ResponseFormatJSONObjectParam{}}
			},
			ours:  providers.Request{Schema: verdictSchema()},
			known: providers.Capabilities{JSON: providers.JSONObject},
		},
		"search": {
			sdk: func(p *responses.ResponseNewParams) {
				p.Tools = []responses.ToolUnionParam{{OfWebSearch: &responses.WebSearchToolParam{Type: responses.WebSearchToolTypeWebSearch}}}
				p.ToolChoice.OfToolChoiceMode = openai.Opt(responses.ToolChoiceOptionsRequired)
				p.Include = []responses.ResponseIncludable{responses.ResponseIncludableWebSearchCallActionSources}
			},
			ours:  providers.Request{Search: true},
			known: providers.Capabilities{Search: "web_search"},
		},
		"named": {
			ours:   providers.Request{IdempotencyID: "run-1"},
			differ: reasons{"header.X-Client-Request-Id": "OpenAI documents it for its logs; the SDK leaves it to its user"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sdk := func(url string) error {
				params := responseParams(said(responses.EasyInputMessageRoleUser, prompt))
				if test.sdk != nil {
					test.sdk(&params)
				}
				service := responses.NewResponseService(openaiOptions(t, url)...)
				_, err := service.New(t.Context(), params)
				return err
			}
			ours := func(url string) error {
				provider, err := responsesDialect(t, url, test.known)
				if err != nil {
					return err
				}
				_, err = provider.Call(t.Context(), complete(test.ours))
				return err
			}
			sameRequests(t, []string{response}, sdk, ours, openaiSends.with(test.differ))
		})
	}
}

// TestBackgroundJobsAreAskedForAsByOpenAIsSDK has both submit a deep research, ask
// for it and cancel it.
func TestBackgroundJobsAreAskedForAsByOpenAIsSDK(t *testing.T) {
	t.Parallel()
	const queued = `{"id":"resp_1","object":"response","created_at":1,"status":"queued","model":"careful","output":[]}`
	const cancelled = `{"id":"resp_1","object":"response","created_at":1,"status":"cancelled","model":"careful","output":[]}`
	sdk := func(url string) error {
		params := responseParams(said(responses.EasyInputMessageRoleUser, prompt))
		params.Background, params.Store, params.MaxToolCalls = openai.Bool(true), openai.Bool(true), openai.Int(9)
		params.Tools = []responses.ToolUnionParam{{OfWebSearchPreview: &responses.WebSearchPreviewToolParam{Type: responses.WebSearchPreviewToolTypeWebSearchPreview}}}
		params.ToolChoice.OfToolChoiceMode = openai.Opt(responses.ToolChoiceOptionsRequired)
		params.Include = []responses.ResponseIncludable{responses.ResponseIncludableWebSearchCallActionSources}
		service := responses.NewResponseService(openaiOptions(t, url)...)
		job, err := service.New(t.Context(), params)
		if err != nil {
			return err
		}
		if _, err := service.Get(t.Context(), job.ID, responses.ResponseGetParams{}); err != nil {
			return err
		}
		_, err = service.Cancel(t.Context(), job.ID)
		return err
	}
	ours := func(url string) error {
		provider, err := responsesDialect(t, url, providers.Capabilities{Search: "web_search_preview"})
		if err != nil {
			return err
		}
		id, err := provider.Submit(t.Context(), complete(providers.Request{Search: true, Extra: map[string]any{"max_tool_calls": 9}}))
		if err != nil {
			return err
		}
		if _, done, err := provider.Poll(t.Context(), key, id); err != nil || done {
			t.Errorf("poll: got done %v, %v", done, err)
		}
		return provider.Cancel(t.Context(), key, id)
	}
	sameRequests(t, []string{queued, queued, cancelled}, sdk, ours, openaiSends)
}
