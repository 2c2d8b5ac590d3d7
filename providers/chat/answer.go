package chat

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// completion has the fields read from an answer; the others are only in Result.Raw.
type completion struct {
	Model       string           `json:"model"`
	Error       *json.RawMessage `json:"error"` // OpenRouter and LM Studio send errors with status 200
	Choices     []choice         `json:"choices"`
	Usage       *usage           `json:"usage"`
	ServiceTier transport.Tier   `json:"service_tier"`
	// Lists of endpoints that search by themselves: Perplexity sends both, xAI and OpenRouter the first.
	Citations     pages `json:"citations"`
	SearchResults pages `json:"search_results"`
}

// grounding returns the evidence of searches in the message, in the usage, and in the fields beside them.
func (c *completion) grounding(m message) providers.Grounding {
	g := providers.Grounding{Searches: c.Usage.searches()}
	named := slices.Concat([]providers.Source(m.Annotations), m.ExecutedTools.sources, c.SearchResults, c.Citations)
	g.Searches = max(g.Searches, m.ExecutedTools.searches)
	g.Queries = m.ExecutedTools.queries
	g.Sources = providers.UniqueSources(named)
	return g
}

type choice struct {
	FinishReason string           `json:"finish_reason"`
	Error        *json.RawMessage `json:"error"`
	Message      message          `json:"message"`
	Text         *string          `json:"text"` // the continuation of a text
	LogProbs     logProbs         `json:"logprobs"`
}

// logProbs are the log probabilities of a message's tokens.
type logProbs struct {
	Content transport.LogProbs `json:"content"`
}

// UnmarshalJSON never fails: continuations of texts and some servers have other forms, which are not read.
func (l *logProbs) UnmarshalJSON(raw []byte) error {
	type fields logProbs
	_ = json.Unmarshal(raw, (*fields)(l)) // leaves it empty
	return nil
}

func (c *choice) text() string {
	if c.Message.Content.text == "" && c.Text != nil {
		return *c.Text
	}
	return c.Message.Content.text
}

type message struct {
	Content     content   `json:"content"`
	Refusal     string    `json:"refusal"`
	Annotations citations `json:"annotations"`
	// ExecutedTools are the tools that Groq's systems ran before they answered.
	ExecutedTools executed `json:"executed_tools"`
	// Fields in which servers show what a model thought. OpenRouter and newer vLLM use the first, DeepSeek, xAI, LM
	// Studio and older vLLM the second, Mistral parts of the content.
	Reasoning        thought `json:"reasoning"`
	ReasoningContent thought `json:"reasoning_content"`
}

// decode turns a whole answer into a result; its error is a *providers.Error.
func decode(answer *transport.Answer) (*providers.Result, error) {
	var c completion
	parts, ended := answer.Parts()
	var err error
	if parts == nil {
		err = json.Unmarshal(answer.Body, &c)
	} else {
		err = c.join(parts, ended)
	}

	switch {
	case err != nil:
		return nil, answer.Malformed(err)
	case c.Error != nil && parts != nil:
		return nil, answer.FailureIn(*c.Error)
	case c.Error != nil:
		return nil, answer.Failure()
	}

	if len(c.Choices) == 0 {
		return nil, answer.Without("no choices")
	}
	choice := c.Choices[0]
	if choice.Error != nil {
		return nil, answer.FailureIn(*choice.Error)
	}
	result := &providers.Result{
		Text:      choice.text(),
		Usage:     c.Usage.normalised(c.ServiceTier),
		Grounding: c.grounding(choice.Message),
		Reasoning: cmp.Or(string(choice.Message.Reasoning), string(choice.Message.ReasoningContent), choice.Message.Content.thoughts),
		Model:     c.Model,
		RequestID: answer.RequestID,
		Limits:    answer.Limits(),
		Raw:       answer.Body,
		Tokens:    choice.LogProbs.Content,
	}

	switch choice.FinishReason {
	case "length", "max_tokens", "model_length":
		result.Finish = providers.FinishTruncated
	case "error", "network_error", "insufficient_system_resource", "abort":
		return nil, answer.Malformed(errors.New("the answer broke off: " + choice.FinishReason))
	default: // stop; servers may have other words for it, or none
		result.Finish = providers.FinishStop
		if transport.Filtered(choice.FinishReason) {
			result.Finish, result.Reason = providers.FinishRefused, choice.FinishReason
		}
	}

	if refusal := choice.Message.Refusal; refusal != "" {
		result.Finish, result.Text, result.Reason = providers.FinishRefused, refusal, refusal
	}
	if text, ok := transport.Misfiled(result.Reasoning); ok && result.Finish == providers.FinishStop && strings.TrimSpace(result.Text) == "" {
		result.Text, result.Reasoning = text, ""
	}
	if result.Finish == providers.FinishStop && result.Text == "" && choice.Text == nil {
		return nil, answer.Empty(result.Usage, result.Reasoning)
	}
	for _, other := range c.Choices[1:] {
		result.Others = append(result.Others, other.text())
	}
	return result, nil
}

// content is a message's text: a string, null, or a list of parts. It joins the parts' texts, and keeps the thoughts of
// a reasoning model apart.
type content struct {
	text, thoughts string
}

// UnmarshalJSON accepts any of the three forms.
func (c *content) UnmarshalJSON(raw []byte) error {
	var parts []struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Thinking json.RawMessage `json:"thinking"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return json.Unmarshal(raw, &c.text)
	}
	var text, thoughts strings.Builder
	for _, part := range parts {
		switch part.Type {
		case "text":
			text.WriteString(part.Text)
		case "thinking":
			thoughts.WriteString(thinking(part.Thinking))
		}
	}
	c.text, c.thoughts = text.String(), thoughts.String()
	return nil
}

// thinking returns the thoughts in a part: a string, or the joined texts of a list.
func thinking(raw json.RawMessage) string {
	var texts []struct {
		Text thought `json:"text"`
	}
	if json.Unmarshal(raw, &texts) != nil {
		var text string
		_ = json.Unmarshal(raw, &text) // leaves it empty
		return text
	}
	var text strings.Builder
	for _, t := range texts {
		text.WriteString(string(t.Text))
	}
	return text.String()
}

// thought is optional text of an answer; any other JSON value reads as "".
type thought string

// UnmarshalJSON never fails.
func (t *thought) UnmarshalJSON(raw []byte) error {
	_ = json.Unmarshal(raw, (*string)(t)) // leaves it empty
	return nil
}

// citations are the pages that a message's annotations name.
type citations []providers.Source

// UnmarshalJSON never fails: it skips other annotations and unknown forms.
func (c *citations) UnmarshalJSON(raw []byte) error {
	var annotations []struct {
		Citation providers.Source `json:"url_citation"`
	}
	_ = json.Unmarshal(raw, &annotations) // keeps what could be read
	for _, annotation := range annotations {
		*c = append(*c, annotation.Citation)
	}
	return nil
}

// pages holds a list of pages, given as addresses or as objects with an address.
type pages []providers.Source

// UnmarshalJSON never fails: invalid pages are left out.
func (p *pages) UnmarshalJSON(raw []byte) error {
	var listed []json.RawMessage
	_ = json.Unmarshal(raw, &listed) // leaves it empty
	for _, one := range listed {
		var page providers.Source
		if json.Unmarshal(one, &page.URL) != nil {
			_ = json.Unmarshal(one, &page) // keeps what could be read
		}
		*p = append(*p, page)
	}
	return nil
}

// executed is the evidence in the tools that a system ran by itself.
type executed struct {
	searches int
	queries  []string
	sources  []providers.Source
}

// UnmarshalJSON never fails: a tool of unknown form does not count as a search.
func (e *executed) UnmarshalJSON(raw []byte) error {
	var tools []struct {
		Type      string `json:"type"`
		Arguments string `json:"arguments"` // JSON
		Results   struct {
			Pages pages `json:"results"`
		} `json:"search_results"`
	}

	_ = json.Unmarshal(raw, &tools) // keeps what could be read
	for _, tool := range tools {
		e.sources = append(e.sources, tool.Results.Pages...)
		if !strings.HasSuffix(tool.Type, "search") { // a page visited, code run, …
			continue
		}
		e.searches++
		var arguments struct {
			Query string `json:"query"`
		}
		_ = json.Unmarshal([]byte(tool.Arguments), &arguments) // leaves it empty
		if arguments.Query != "" {
			e.queries = append(e.queries, arguments.Query)
		}
	}

	return nil
}

type usage struct {
	Prompt        transport.Count   `json:"prompt_tokens"`
	Completion    transport.Count   `json:"completion_tokens"`
	Total         transport.Count   `json:"total_tokens"`
	CacheHit      transport.Count   `json:"prompt_cache_hit_tokens"` // DeepSeek
	CachedTokens  transport.Count   `json:"num_cached_tokens"`       // Mistral
	CachedHere    transport.Count   `json:"cached_tokens"`           // Together
	Queries       transport.Count   `json:"num_search_queries"`      // Perplexity's deep research
	ServiceTier   transport.Tier    `json:"service_tier"`            // Mistral
	Cost          transport.Dollars `json:"cost"`                    // OpenRouter, Perplexity
	Ticks         transport.Ticks   `json:"cost_in_usd_ticks"`       // xAI
	PromptDetails struct {
		Cached  transport.Count `json:"cached_tokens"`
		Written transport.Count `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	ServerTools struct {
		Searches transport.Count `json:"web_search_requests"` // OpenRouter
	} `json:"server_tool_use"`
	ServerToolDetails struct { // the same, where OpenRouter's search is a server tool
		Searches transport.Count `json:"web_search_requests"`
	} `json:"server_tool_use_details"`
	CompletionDetails struct {
		Reasoning transport.Count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// UnmarshalJSON never fails: a field of unknown form is left empty, without affecting the others.
func (u *usage) UnmarshalJSON(raw []byte) error {
	type fields usage
	_ = json.Unmarshal(raw, (*fields)(u))
	return nil
}

// searches returns the number of searches that the provider reports.
func (u *usage) searches() int {
	if u == nil {
		return 0
	}
	return int(max(u.ServerTools.Searches, u.ServerToolDetails.Searches, u.Queries))
}

func (u *usage) normalised(tier transport.Tier) providers.Usage {
	if u == nil {
		return providers.Usage{}
	}
	return providers.Usage{
		Reported: true,
		Input:    int64(u.Prompt),
		// xAI and Gemini count reasoning in the total, but not in the completion.
		Output:    int64(max(u.Completion, u.Total-u.Prompt)),
		Cached:    int64(max(u.PromptDetails.Cached, u.CacheHit, u.CachedTokens, u.CachedHere)),
		Written:   int64(u.PromptDetails.Written),
		Reasoning: int64(u.CompletionDetails.Reasoning),
		Tier:      string(cmp.Or(tier, u.ServiceTier)),
		CostUSD:   cmp.Or(u.Cost.USD, u.Ticks.USD),
	}
}
