package conformance

import (
	"testing"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/messages"
)

// anthropicSends are what its SDK sends besides.
var anthropicSends = reasons{
	"header.User-Agent":    "each names itself",
	"header.X-Stainless-*": "the SDK reports the platform",
}

// messagesDialect calls with a request that has the bound of messageParams, if it
// has none of its own.
func messagesDialect(t *testing.T, url string, capabilities providers.Capabilities, req providers.Request) error {
	provider, err := messages.New(messages.Config{BaseURL: url, HTTPClient: httpClient(t), Capabilities: known(capabilities)})
	if err != nil {
		return err
	}
	if req.MaxOutputTokens == 0 {
		req.MaxOutputTokens = int(messageParams("").MaxTokens)
	}
	_, err = provider.Call(t.Context(), complete(req))
	return err
}

func TestTheMessagesDialectSendsWhatAnthropicsSDKSends(t *testing.T) {
	t.Parallel()
	const answer = `{"id":"msg_1","type":"message","role":"assistant","model":"careful","content":[{"type":"text","text":"{}"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}`
	zero := 0.0
	for name, test := range map[string]struct {
		sdk    func(*anthropic.MessageNewParams)
		ours   providers.Request
		known  providers.Capabilities
		differ reasons
	}{
		"plain": {},
		"system and user": {
			sdk:  func(p *anthropic.MessageNewParams) { p.System = []anthropic.TextBlockParam{{Text: system}} },
			ours: providers.Request{Messages: conversation()},
		},
		"images": {
			sdk: func(p *anthropic.MessageNewParams) {
				p.Messages = []anthropic.MessageParam{anthropic.NewUserMessage(
					anthropic.NewTextBlock(prompt[:5]), anthropic.NewImageBlockBase64("image/png", image), anthropic.NewTextBlock(prompt[5:]),
					anthropic.NewImageBlock(anthropic.URLImageSourceParam{URL: "https://h/i.png"}),
				)}
			},
			ours: pictured("https://h/i.png"),
		},
		"a beginning to keep": {
			sdk: func(p *anthropic.MessageNewParams) {
				first := anthropic.NewTextBlock(prompt[:5])
				first.OfText.CacheControl = anthropic.NewCacheControlEphemeralParam()
				p.Messages = []anthropic.MessageParam{anthropic.NewUserMessage(first, anthropic.NewTextBlock(prompt[5:]))}
			},
			ours:  repeating(),
			known: providers.Capabilities{PromptCache: providers.PromptCacheMarks},
		},
		"a repair": {
			sdk: func(p *anthropic.MessageNewParams) {
				p.Messages = append(p.Messages,
					anthropic.NewAssistantMessage(anthropic.NewTextBlock("a?")), anthropic.NewUserMessage(anthropic.NewTextBlock("JSON, please.")))
			},
			ours: providers.Request{Messages: repair()},
		},
		"bounds": {
			sdk:  func(p *anthropic.MessageNewParams) { p.MaxTokens, p.Temperature = 500, anthropic.Float(0) },
			ours: providers.Request{MaxOutputTokens: 500, Temperature: &zero},
		},
		"effort of newer models": {
			sdk: func(p *anthropic.MessageNewParams) {
				p.OutputConfig.Effort = anthropic.OutputConfigEffortLow
				p.Thinking = anthropic.ThinkingConfigParamUnion{OfAdaptive: &anthropic.ThinkingConfigAdaptiveParam{}}
			},
			ours:  providers.Request{ReasoningEffort: "low"},
			known: providers.Capabilities{Reasoning: providers.ReasoningAdaptive},
		},
		"reasoning that shows": {
			sdk:   func(p *anthropic.MessageNewParams) { p.Thinking = messageThinking() },
			ours:  providers.Request{Reason: true},
			known: providers.Capabilities{Reasoning: providers.ReasoningAdaptive},
		},
		"effort of older models": {
			sdk: func(p *anthropic.MessageNewParams) {
				p.MaxTokens = 20000
				p.Thinking = anthropic.ThinkingConfigParamOfEnabled(4096)
			},
			ours:  providers.Request{MaxOutputTokens: 20000, ReasoningEffort: "low"},
			known: providers.Capabilities{Reasoning: providers.ReasoningBudget},
		},
		"no reasoning": {
			sdk: func(p *anthropic.MessageNewParams) {
				p.Thinking = anthropic.ThinkingConfigParamUnion{OfDisabled: &anthropic.ThinkingConfigDisabledParam{}}
			},
			ours: providers.Request{ReasoningEffort: "none"},
		},
		"schema": {
			sdk:  func(p *anthropic.MessageNewParams) { p.OutputConfig.Format = messageSchema(t) },
			ours: providers.Request{Schema: verdictSchema()},
		},
		"search": {
			sdk:   func(p *anthropic.MessageNewParams) { p.Tools = messageSearch() },
			ours:  providers.Request{Search: true, BoundSearches: true},
			known: providers.Capabilities{Search: "web_search_20250305"},
		},
		"newer search": {
			sdk: func(p *anthropic.MessageNewParams) {
				p.Tools = []anthropic.ToolUnionParam{{OfWebSearchTool20260209: &anthropic.WebSearchTool20260209Param{MaxUses: anthropic.Int(5)}}}
			},
			ours:  providers.Request{Search: true, BoundSearches: true},
			known: providers.Capabilities{Search: "web_search_20260209"},
		},
		"named": {
			ours:   providers.Request{IdempotencyID: "run-1"},
			differ: reasons{"header.X-Client-Request-Id": "for the logs of proxies"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sdk := func(url string) error {
				params := messageParams(prompt)
				if test.sdk != nil {
					test.sdk(&params)
				}
				_, err := anthropicMessages(t, url).New(t.Context(), params)
				return err
			}
			ours := func(url string) error { return messagesDialect(t, url, test.known, test.ours) }
			sameRequests(t, []string{answer}, sdk, ours, anthropicSends.with(test.differ))
		})
	}
}

// TestAPausedTurnGoesOnAsWithAnthropicsSDK has both send back what was said until
// the pause, thoughts and search included.
func TestAPausedTurnGoesOnAsWithAnthropicsSDK(t *testing.T) {
	t.Parallel()
	const paused = `{"id":"msg_1","type":"message","role":"assistant","model":"careful","stop_reason":"pause_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1},"content":[
		{"type":"thinking","thinking":"I look it up.","signature":"c2lnbmF0dXJl"},
		{"type":"text","text":"One moment."},
		{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"a text"},"caller":{"type":"direct"}},
		{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","caller":{"type":"direct"},"content":[
			{"type":"web_search_result","url":"https://library.example/a","title":"A page","encrypted_content":"c2VhbGVk","page_age":"two days"}]}]}`
	const ended = `{"id":"msg_2","type":"message","role":"assistant","model":"careful","stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1},"content":[{"type":"text","text":"The first."}]}`
	sdk := func(url string) error {
		service, params := anthropicMessages(t, url), messageParams(prompt)
		params.Tools, params.Thinking = messageSearch(), messageThinking()
		for {
			message, err := service.New(t.Context(), params)
			if err != nil || message.StopReason != anthropic.StopReasonPauseTurn {
				return err
			}
			if last := &params.Messages[len(params.Messages)-1]; last.Role == anthropic.MessageParamRoleAssistant {
				last.Content = append(last.Content, message.ToParam().Content...) // one turn, as Anthropic reads two of one role
			} else {
				params.Messages = append(params.Messages, message.ToParam())
			}
		}
	}
	ours := func(url string) error {
		return messagesDialect(t, url, providers.Capabilities{Reasoning: providers.ReasoningAdaptive, Search: "web_search_20250305"}, providers.Request{Search: true, BoundSearches: true, Reason: true})
	}
	sameRequests(t, []string{paused, paused, ended}, sdk, ours, anthropicSends)
}
