package conformance

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/evalfleet/evalfleet/internal/simulator"
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

func responseSearch() []responses.ToolUnionParam {
	return []responses.ToolUnionParam{{OfWebSearch: &responses.WebSearchToolParam{Type: responses.WebSearchToolTypeWebSearch}}}
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
		"log probabilities": {
			sdk: func(p *responses.ResponseNewParams) {
				p.Include = []responses.ResponseIncludable{responses.ResponseIncludableMessageOutputTextLogprobs}
				p.TopLogprobs = openai.Int(20)
			},
			ours: providers.Request{LogProbs: true},
		},
		"images": {
			sdk: func(p *responses.ResponseNewParams) {
				part := func(address string) responses.ResponseInputContentUnionParam {
					return responses.ResponseInputContentUnionParam{OfInputImage: &responses.ResponseInputImageParam{
						Detail: responses.ResponseInputImageDetailAuto, ImageURL: openai.String(address),
					}}
				}
				p.Input.OfInputItemList = responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage(
					responses.ResponseInputMessageContentListParam{
						responses.ResponseInputContentParamOfInputText(prompt[:5]), part("data:image/png;base64," + image),
						responses.ResponseInputContentParamOfInputText(prompt[5:]), part("https://h/i.png"),
					}, responses.EasyInputMessageRoleUser)}
			},
			ours: pictured("https://h/i.png"),
		},
		"a beginning to keep": {
			sdk: func(p *responses.ResponseNewParams) {
				p.Input.OfInputItemList = responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage(
					responses.ResponseInputMessageContentListParam{
						{OfInputText: &responses.ResponseInputTextParam{
							Text: prompt[:5], PromptCacheBreakpoint: responses.ResponseInputTextPromptCacheBreakpointParam{Mode: "explicit"},
						}},
						responses.ResponseInputContentParamOfInputText(prompt[5:]),
					}, responses.EasyInputMessageRoleUser)}
				p.PromptCacheKey = openai.String("k")
				p.PromptCacheOptions.Mode = "explicit"
			},
			ours:  repeating(),
			known: providers.Capabilities{PromptCache: providers.PromptCacheBreakpoints},
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
				p.Tools = responseSearch()
				p.ToolChoice.OfToolChoiceMode = openai.Opt(responses.ToolChoiceOptionsRequired)
				p.Include = []responses.ResponseIncludable{responses.ResponseIncludableWebSearchCallActionSources}
				p.MaxToolCalls = openai.Int(providers.DefaultSearches)
			},
			ours:  providers.Request{Search: true, BoundSearches: true},
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

// openaiExcept is in what the live service's answers differ from what OpenAI's
// specification requires and knows.
var openaiExcept = reasons{
	"answer.access_programs":                               "newer than the answers that were seen",
	"answer.usage.input_tokens_details.cache_write_tokens": "newer than the answers that were seen",
	"answer.store": "it is answered, and not specified",
}

func TestOpenAIsSDKReadsSimulatedResponses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text      string
		params    func(*responses.ResponseNewParams)
		behaviour simulator.Behaviour
		status    responses.ResponseStatus // completed when empty
		why       string                   // it is incomplete
		contains  string                   // in the text, or in the refusal
		refused   bool
		thinks    bool // and shows it
		searches  bool
	}{
		"prose": {text: prompt, contains: "simulated answer"},
		"system and user": {
			text: twoDocuments, contains: better,
			params: func(p *responses.ResponseNewParams) {
				p.Instructions, p.Text = openai.String(system), responseSchema(t)
			},
		},
		"reasoning": {
			text: prompt, contains: "simulated answer", thinks: true,
			params: func(p *responses.ResponseNewParams) {
				p.Reasoning = shared.ReasoningParam{Effort: shared.ReasoningEffortLow, Summary: shared.ReasoningSummaryAuto}
			},
		},
		"search": {
			text: prompt, contains: "simulated answer", searches: true,
			params: func(p *responses.ResponseNewParams) {
				p.Tools = responseSearch()
				p.Include = []responses.ResponseIncludable{responses.ResponseIncludableWebSearchCallActionSources}
			},
		},
		"search not used": {
			text: prompt, contains: "simulated answer", behaviour: simulator.Behaviour{UngroundedRate: 1},
			params: func(p *responses.ResponseNewParams) { p.Tools = responseSearch() },
		},
		"truncated": {
			text: prompt, status: responses.ResponseStatusIncomplete, why: "max_output_tokens", contains: "This is",
			params: func(p *responses.ResponseNewParams) { p.MaxOutputTokens = openai.Int(16) },
		},
		"refused":  {text: prompt, behaviour: simulator.Behaviour{RefuseRate: 1}, contains: "cannot help", refused: true},
		"filtered": {text: prompt, behaviour: simulator.Behaviour{FilterRate: 1}, status: responses.ResponseStatusIncomplete, why: "content_filter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := simulated(t, simulator.Config{
				Keys:      []string{key},
				Behaviour: test.behaviour,
				Limits:    simulator.Limits{Requests: simulator.Rates{{N: 10, Window: time.Minute}}},
			})
			params := responseParams(said(responses.EasyInputMessageRoleUser, test.text))
			if test.params != nil {
				test.params(&params)
			}
			var header *http.Response
			service := responses.NewResponseService(openaiOptions(t, server.URL)...)
			answer, err := service.New(t.Context(), params, option.WithResponseInto(&header))
			if err != nil {
				t.Fatal(err)
			}
			faithful(t, answer, openaiExcept)
			if answer.Status != cmp.Or(test.status, responses.ResponseStatusCompleted) || answer.IncompleteDetails.Reason != test.why || answer.Model != "careful" {
				t.Errorf("got %s, want %q %s", answer.RawJSON(), test.status, test.why)
			}
			got := readResponse(t, answer)
			if !strings.Contains(got.text, test.contains) || got.refused != test.refused || got.thought != test.thinks || got.searched != test.searches || got.cited != test.searches {
				t.Errorf("got %+v of %s", got, answer.RawJSON())
			}
			usage := answer.Usage
			if usage.InputTokens == 0 || usage.TotalTokens != usage.InputTokens+usage.OutputTokens || usage.OutputTokens == 0 && test.contains != "" || usage.OutputTokensDetails.ReasoningTokens > 0 != test.thinks {
				t.Errorf("usage: got %s", usage.RawJSON())
			}
			if header.Header.Get("X-Ratelimit-Remaining-Requests") != "9" || header.Header.Get("X-Request-Id") == "" {
				t.Errorf("headers: got %v", header.Header)
			}
		})
	}
}

// responseReading is what a response has.
type responseReading struct {
	text                              string // or the refusal's
	refused, thought, searched, cited bool
}

func readResponse(t *testing.T, answer *responses.Response) (r responseReading) {
	t.Helper()
	for _, item := range answer.Output {
		switch item := item.AsAny().(type) {
		case responses.ResponseReasoningItem:
			r.thought = len(item.Summary) > 0 && item.Summary[0].Text != ""
		case responses.ResponseFunctionWebSearch:
			search := item.Action.AsSearch()
			r.searched = item.Status == responses.ResponseFunctionWebSearchStatusCompleted && len(search.Queries) > 0 && len(search.Sources) > 0
		case responses.ResponseOutputMessage:
			for _, content := range item.Content {
				r.text += content.Text + content.Refusal
				r.refused = r.refused || content.Refusal != ""
				for _, annotation := range content.Annotations {
					citation := annotation.AsURLCitation()
					r.cited = citation.URL != "" && citation.Title != "" && citation.EndIndex <= int64(len([]rune(content.Text)))
				}
			}
		default:
			t.Errorf("an item of another kind: %T", item)
		}
	}
	return r
}

// TestOpenAIsSDKFollowsASimulatedJob polls a background job until it ends, and
// cancels another.
func TestOpenAIsSDKFollowsASimulatedJob(t *testing.T) {
	t.Parallel()
	const lasts = 50 * time.Millisecond
	server := simulated(t, simulator.Config{
		Keys:      []string{key},
		Behaviour: simulator.Behaviour{Latency: simulator.Span{Min: lasts, Max: lasts}},
		Models:    map[string]simulator.Model{"endless": {Behaviour: &simulator.Behaviour{HangRate: 1}}},
	})
	service := responses.NewResponseService(openaiOptions(t, server.URL)...)
	submit := func(model string) *responses.Response {
		params := responseParams(said(responses.EasyInputMessageRoleUser, prompt))
		params.Model, params.Background, params.Store = model, openai.Bool(true), openai.Bool(true)
		job, err := service.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		faithful(t, job, openaiExcept)
		if job.Status != responses.ResponseStatusQueued || job.ID == "" || !job.Background {
			t.Fatalf("submitted: got %s", job.RawJSON())
		}
		return job
	}
	job := submit("careful")
	for job.Status == responses.ResponseStatusQueued || job.Status == responses.ResponseStatusInProgress {
		next, err := service.Get(t.Context(), job.ID, responses.ResponseGetParams{})
		if err != nil {
			t.Fatal(err)
		}
		faithful(t, next, openaiExcept)
		if next.ID != job.ID {
			t.Fatalf("got %s, want %s", next.ID, job.ID)
		}
		job = next
	}
	if job.Status != responses.ResponseStatusCompleted || !strings.Contains(job.OutputText(), "simulated answer") || job.Usage.OutputTokens == 0 {
		t.Errorf("ended: got %s", job.RawJSON())
	}

	endless := submit("endless")
	for range 2 { // the second cancels what has ended
		cancelled, err := service.Cancel(t.Context(), endless.ID)
		if err != nil {
			t.Fatal(err)
		}
		faithful(t, cancelled, openaiExcept)
		if cancelled.Status != responses.ResponseStatusCancelled {
			t.Errorf("cancelled: got %s", cancelled.RawJSON())
		}
	}
	_, err := service.Get(t.Context(), "resp_none", responses.ResponseGetParams{})
	openaiFailed(t, err, openai.Error{StatusCode: http.StatusNotFound, Type: "invalid_request_error", Message: "resp_none"})
}

// TestOpenAIsSDKReadsAResponseThatFailed has trouble told with status 200, in both
// of its forms.
func TestOpenAIsSDKReadsAResponseThatFailed(t *testing.T) {
	t.Parallel()
	service := responses.NewResponseService(openaiOptions(t, simulated(t, failing(simulator.FailedIn200)).URL)...)
	codes := map[responses.ResponseErrorCode]bool{}
	for _, text := range []string{"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"} {
		answer, err := service.New(t.Context(), responseParams(said(responses.EasyInputMessageRoleUser, text)))
		if err != nil {
			t.Fatal(err)
		}
		faithful(t, answer, openaiExcept)
		if answer.Status != responses.ResponseStatusFailed || answer.Error.Message == "" {
			t.Errorf("got %s", answer.RawJSON())
		}
		codes[answer.Error.Code] = true
	}
	if len(codes) != 2 || !codes[responses.ResponseErrorCodeServerError] || !codes[responses.ResponseErrorCodeRateLimitExceeded] {
		t.Errorf("codes: got %v", codes)
	}
}

func TestOpenAIsSDKReadsFailuresOfTheResponsesDialect(t *testing.T) {
	t.Parallel()
	for failure, want := range openaiFailures {
		t.Run(string(failure), func(t *testing.T) {
			t.Parallel()
			service := responses.NewResponseService(openaiOptions(t, simulated(t, failing(failure)).URL)...)
			_, err := service.New(t.Context(), responseParams(said(responses.EasyInputMessageRoleUser, prompt)))
			if hint := openaiFailed(t, err, want).Get("Retry-After"); hint != "2" {
				t.Errorf("hint: got %q, want 2", hint)
			}
		})
	}
}
