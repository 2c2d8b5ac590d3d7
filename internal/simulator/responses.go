package simulator

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

// responses is the dialect of OpenAI's Responses API.
type responses struct{}

// responsesRequest has every field that matters for a text, and fields that change nothing here;
// OpenAI refuses others.
type responsesRequest struct {
	Model           string            `json:"model"`
	Instructions    string            `json:"instructions"`
	Input           inputItems        `json:"input"`
	MaxOutputTokens *int              `json:"max_output_tokens"`
	Reasoning       responseReasoning `json:"reasoning"`
	Text            responseText      `json:"text"`
	Tools           []struct {
		Type string `json:"type"`
	} `json:"tools"`
	Include           []string        `json:"include"`
	Background        bool            `json:"background"`
	Store             *bool           `json:"store"`
	Stream            bool            `json:"stream"`
	Temperature       *float64        `json:"temperature"`
	TopP              *float64        `json:"top_p"`
	ToolChoice        json.RawMessage `json:"tool_choice"`
	Truncation        string          `json:"truncation"`
	MaxToolCalls      *int            `json:"max_tool_calls"`
	ParallelToolCalls *bool           `json:"parallel_tool_calls"`
	Metadata          json.RawMessage `json:"metadata"`
	ServiceTier       string          `json:"service_tier"`
	TopLogProbs       *int            `json:"top_logprobs"`
	SafetyIdentifier  string          `json:"safety_identifier"`
	openaiCaching
	PromptCacheRetention string `json:"prompt_cache_retention"`
	User                 string `json:"user"`
}

type responseReasoning struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

type responseText struct {
	Format struct {
		Type        string          `json:"type"`
		Name        string          `json:"name,omitempty"`
		Description string          `json:"description,omitempty"`
		Schema      json.RawMessage `json:"schema,omitempty"`
		Strict      *bool           `json:"strict,omitempty"`
	} `json:"format"`
	Verbosity string `json:"verbosity,omitempty"`
}

// inputItems is a list of messages. In JSON, it may also be a plain text of the user. Items without
// a role are ignored.
type inputItems []inputItem

type inputItem struct {
	role string
	texts
}

// UnmarshalJSON reads a plain text or a list of items.
func (i *inputItems) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*i = inputItems{{"user", texts{said: text}}}
		return nil
	}
	var items []struct {
		Role    string `json:"role"`
		Content texts  `json:"content"`
	}
	if err := json.Unmarshal(raw, &items); err != nil {
		return err
	}
	for _, item := range items {
		if item.Role != "" {
			*i = append(*i, inputItem{item.Role, item.Content})
		}
	}
	return nil
}

func (responses) parse(_ *http.Request, body []byte) (*request, error) {
	asked := &responsesRequest{}
	err := strictly(body, asked)
	format := asked.Text.Format
	req := &request{
		model:      asked.Model,
		tier:       asked.ServiceTier,
		schema:     string(format.Schema),
		json:       strings.HasPrefix(format.Type, "json"),
		reason:     asked.reasons(),
		shown:      asked.Reasoning.Summary != nil,
		background: asked.Background,
		messages:   turns(asked.Instructions),
		responses:  asked,
		routed:     true,
		cacheKey:   asked.PromptCacheKey,
		unasked:    asked.PromptCacheOptions.Mode == "explicit",
	}
	for _, item := range asked.Input {
		req.say(item.role, item.texts, tiledTokens)
	}

	if asked.MaxOutputTokens != nil {
		req.bound = *asked.MaxOutputTokens
	}
	for _, tool := range asked.Tools {
		req.search = req.search || strings.HasPrefix(tool.Type, "web_search")
	}
	if err != nil {
		return req, complain("Unknown or invalid parameter: %v", err)
	}
	if err := req.wantsLogProbs(slices.Contains(asked.Include, "message.output_text.logprobs"), asked.TopLogProbs); err != nil {
		return req, err
	}
	return req, asked.problem()
}

// reasons reports whether reasoning is requested: an effort, or a summary of it.
func (r *responsesRequest) reasons() bool {
	if effort := r.Reasoning.Effort; effort != nil {
		return *effort != "none"
	}
	return r.Reasoning.Summary != nil
}

// problem returns why the dialect refuses the request; nil: it does not.
func (r *responsesRequest) problem() error {
	format := r.Text.Format
	aboutJSON := func(i inputItem) bool { return strings.Contains(strings.ToLower(i.said), "json") }
	switch {
	case r.Model == "":
		return complain("Missing required parameter: 'model'.")
	case len(r.Input) == 0:
		return complain("Missing required parameter: 'input'.")
	case r.Stream:
		return complain("The simulator does not stream.")
	case r.MaxOutputTokens != nil && *r.MaxOutputTokens < 16:
		return complain(
			"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got %d instead.",
			*r.MaxOutputTokens,
		)
	case r.Background && r.Store != nil && !*r.Store:
		return complain("Background mode requires 'store' to be true.")
	case r.Temperature != nil && r.reasons():
		return complain("Unsupported parameter: 'temperature' is not supported with this model.")
	case format.Type == "json_schema" && (format.Name == "" || len(format.Schema) == 0):
		return complain("Missing required parameter: 'text.format.name' or 'text.format.schema'.")
	case format.Type == "json_object" && !slices.ContainsFunc(r.Input, aboutJSON):
		return complain("Response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'.")
	case format.Type == "json_object" && r.has("web_search", "web_search_preview"):
		return complain("Web Search cannot be used with JSON mode.")
	case strings.Contains(r.Model, "deep-research"):
		return r.researchProblem()
	}

	return nil
}

// researchProblem returns why a model for deep research refuses the request; nil: it does not.
func (r *responsesRequest) researchProblem() error {
	switch {
	case r.has("web_search", "function"):
		return complain("Hosted tool '%s' is not supported with %s.", r.Tools[0].Type, r.Model)
	case !r.has("web_search_preview", "file_search", "mcp"):
		return complain("Deep research models require at least one of 'web_search_preview', 'mcp', or 'file_search' tools.")
	case strings.HasPrefix(r.Text.Format.Type, "json"):
		return complain("Invalid parameter: 'text.format' of type '%s' is not supported with %s.", r.Text.Format.Type, r.Model)
	}
	return nil
}

// has reports whether a tool of one of the types is offered.
func (r *responsesRequest) has(types ...string) bool {
	for _, tool := range r.Tools {
		if slices.Contains(types, tool.Type) {
			return true
		}
	}
	return false
}

func (responses) head(h http.Header, c *call) { openaiHead(h, c) }

func (responses) hint(h http.Header, c *call, p problem) { openaiHint(h, c, p) }

func (responses) key(h http.Header) (name, key string) { return bearer(h) }

func (r responses) answer(c *call) any { return r.object(c, c.plan.status()) }

func (r responses) problem(c *call, p problem) (status int, body any) {
	if p.failure == FailedIn200 {
		return http.StatusOK, r.object(c, "failed")
	}
	return openaiProblem(c, p)
}

// status returns the status of a response that has ended.
func (p plan) status() string {
	switch {
	case p.fate == failing:
		return "failed"
	case p.finish == truncated, p.finish == overflowing, p.finish == filtered:
		return "incomplete"
	}
	return "completed"
}

// object returns a response in one of its states, including its request.
func (responses) object(c *call, status string) map[string]any {
	asked := c.req.responses
	text := asked.Text
	if text.Format.Type == "" {
		text.Format.Type = "text"
	}
	object := map[string]any{
		"id": c.id("resp_"), "object": "response", "created_at": c.admitted.Unix(), "model": c.named(),
		"status": status, "background": asked.Background, "error": nil, "incomplete_details": nil, "output": []any{}, "usage": nil,
		"instructions": nil, "max_output_tokens": asked.MaxOutputTokens, "reasoning": asked.Reasoning, "text": text,
		"tools": []any{}, "tool_choice": "auto", "parallel_tool_calls": true, "store": asked.Store == nil || *asked.Store,
		"previous_response_id": nil, "temperature": 1.0, "top_p": 1.0, "truncation": "disabled", "metadata": map[string]any{},
	}

	if c.req.tier != "" {
		object["service_tier"] = c.req.tier
	}
	switch status {
	case "failed":
		code, message := "server_error", "The server had an error while processing your request. Sorry about that!"
		if c.draw("failed as") < 0.5 {
			wait := cmp.Or(c.plan.problem.wait, 34*time.Second)
			code, message = "rate_limit_exceeded", "Rate limit reached while the response was made. Please try again in "+wait.String()+"."
		}
		object["error"] = map[string]string{"code": code, "message": message}
	case "incomplete":
		reason := "max_output_tokens"
		if c.plan.finish == filtered {
			reason = "content_filter"
		}
		object["incomplete_details"] = map[string]string{"reason": reason}
		fallthrough
	case "completed":
		object["output"] = c.output(status)
		object["usage"] = map[string]any{
			"input_tokens":          c.spends.input,
			"input_tokens_details":  c.cacheDetails(),
			"output_tokens":         c.spends.output,
			"output_tokens_details": map[string]int{"reasoning_tokens": c.plan.reasoning},
			"total_tokens":          c.spends.input + c.spends.output,
		}
	}

	return object
}

// output returns the reasoning, the search and the message.
func (c *call) output(status string) []any {
	output := []any{}
	if c.plan.reasoning > 0 {
		summary := []any{}
		if c.plan.thoughts != "" && c.req.shown {
			summary = append(summary, map[string]string{"type": "summary_text", "text": c.plan.thoughts})
		}
		output = append(output, map[string]any{"id": c.id("rs_"), "type": "reasoning", "summary": summary})
	}
	if c.plan.found != nil {
		output = append(output, c.searchCall())
	}
	if c.plan.text == "" {
		return output
	}
	said := map[string]any{
		"type": "output_text", "text": c.plan.text, "annotations": c.plan.urlCitations(),
		"logprobs": openAILogProbs(c.tokensOf(c.plan.text)),
	}
	if c.plan.finish == refused {
		said = map[string]any{"type": "refusal", "refusal": c.plan.text}
	}
	return append(output, map[string]any{"id": c.id("msg_"), "type": "message", "status": status, "role": "assistant", "content": []any{said}})
}

// searchCall returns the call of the search, with its sources if they are requested.
func (c *call) searchCall() map[string]any {
	found := c.plan.found
	action := map[string]any{"type": "search", "query": found.query, "queries": []string{found.query}}
	if slices.Contains(c.req.responses.Include, "web_search_call.action.sources") {
		var sources []any
		for _, s := range found.sources {
			sources = append(sources, map[string]string{"type": "url", "url": s.url})
		}
		action["sources"] = sources
	}
	return map[string]any{"id": c.id("ws_"), "type": "web_search_call", "status": "completed", "action": action}
}

// urlCitations returns a citation of each source for the whole text; positions count characters.
func (p plan) urlCitations() []any {
	citations := []any{}
	if p.found == nil {
		return citations
	}
	for _, s := range p.found.sources {
		citations = append(citations, map[string]any{
			"type": "url_citation", "start_index": 0, "end_index": len([]rune(p.text)), "url": s.url, "title": s.title,
		})
	}
	return citations
}
