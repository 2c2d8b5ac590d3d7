package responses

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// The states of a response.
const (
	statusQueued     = "queued"
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
	statusCancelled  = "cancelled"
)

// response has the fields read from an answer; the others are only in Result.Raw.
type response struct {
	ID                string           `json:"id"`
	Status            string           `json:"status"`
	Model             string           `json:"model"`
	Error             *json.RawMessage `json:"error"`
	IncompleteDetails struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Output []json.RawMessage `json:"output"`
	Text   struct {
		Format struct {
			Type string `json:"type"`
		} `json:"format"`
	} `json:"text"`
	Usage       *usage         `json:"usage"`
	ServiceTier transport.Tier `json:"service_tier"`
}

// decode reads a whole answer; its error is a *providers.Error.
func decode(answer *transport.Answer) (*response, error) {
	var r response
	body := json.RawMessage(answer.Body)
	if parts, _ := answer.Parts(); parts != nil {
		if body = last(parts); body == nil {
			return nil, answer.Malformed(errors.New("the answer broke off: its stream has no end"))
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, answer.Malformed(err)
	}
	if r.Status == "" && r.Error != nil && len(body) != len(answer.Body) {
		return nil, answer.FailureIn(*r.Error)
	}
	switch {
	case r.Status == "" && r.Error != nil:
		return nil, answer.Failure()
	case r.Status == "" && r.Output == nil:
		return nil, answer.Without("no output")
	}
	return &r, nil
}

// last returns the response or the error at the end of a stream that was not asked for; nil: it has none.
func last(parts []json.RawMessage) json.RawMessage {
	var event struct {
		Type     string          `json:"type"`
		Response json.RawMessage `json:"response"`
		Error    json.RawMessage `json:"error"`
	}
	for _, raw := range parts {
		event.Type, event.Response, event.Error = "", nil, nil
		_ = json.Unmarshal(raw, &event) // leaves it empty
		switch event.Type {
		case "response.completed", "response.incomplete", "response.failed":
			return event.Response
		case "error":
			if event.Error != nil {
				return raw
			}
			return json.RawMessage(`{"error":` + string(raw) + `}`) // the event is the error
		}
	}
	return nil
}

// ended reports whether the response is final.
func (r *response) ended() bool {
	switch r.Status {
	case statusCompleted, statusIncomplete, statusFailed, statusCancelled:
		return true
	}
	return false
}

// result converts a response that has ended; the error is a *providers.Error.
func (r *response) result(answer *transport.Answer) (*providers.Result, error) {
	finish := providers.FinishStop
	switch {
	case r.Error != nil:
		return nil, answer.FailureIn(*r.Error)
	case r.Status == statusCancelled:
		return nil, answer.Fail(providers.Cancelled, "the response was cancelled at the provider")
	case r.Status == statusIncomplete && transport.Filtered(r.IncompleteDetails.Reason):
		finish = providers.FinishRefused
	case r.Status == statusIncomplete:
		finish = providers.FinishTruncated
	case r.Status == statusQueued, r.Status == statusInProgress, r.Status == statusFailed,
		r.Status != statusCompleted && r.Output == nil: // some servers do not say completed, or use another word
		return nil, answer.Malformed(fmt.Errorf("status %q and no error", r.Status))
	}

	var o output
	for _, raw := range r.Output {
		if err := o.add(raw); err != nil {
			return nil, answer.Malformed(err)
		}
	}

	result := &providers.Result{
		Text:   o.text.String(),
		Finish: finish,
		Usage:  r.Usage.normalised(r.ServiceTier),
		Grounding: providers.Grounding{
			Searches: o.searches, Queries: o.queries, Sources: providers.UniqueSources(o.sources),
		},
		Reasoning: strings.Join(o.reasoning, "\n\n"),
		Model:     r.Model,
		RequestID: answer.RequestID,
		Limits:    answer.Limits(),
		Raw:       answer.Body,
		Tokens:    o.tokens,
	}
	if o.refusal != "" {
		result.Finish, result.Text, result.Reason = providers.FinishRefused, o.refusal, o.refusal
	}
	if finish != providers.FinishStop && r.IncompleteDetails.Reason != "max_output_tokens" { // needs no explanation
		result.Reason = cmp.Or(result.Reason, r.IncompleteDetails.Reason)
	}
	if result.Finish == providers.FinishStop && result.Text == "" {
		return nil, answer.Empty(result.Usage, result.Reasoning)
	}
	return result, nil
}

// output collects the contents of a response's items.
type output struct {
	text      strings.Builder
	refusal   string
	reasoning []string
	searches  int
	queries   []string
	sources   []providers.Source
	tokens    []providers.Token
}

// add reads one item. Only an unreadable message is an error: evidence of unknown form must not lose the answer.
func (o *output) add(raw json.RawMessage) error {
	var item struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(raw, &item)
	switch item.Type {
	case "message":
		return o.addMessage(raw)
	case "reasoning":
		o.addReasoning(raw)
	case "web_search_call":
		o.addSearch(raw)
	}
	return nil
}

func (o *output) addMessage(raw json.RawMessage) error {
	var message struct {
		Phase   string `json:"phase"`
		Content []struct {
			Type        string             `json:"type"`
			Text        string             `json:"text"`
			Refusal     string             `json:"refusal"`
			Annotations citations          `json:"annotations"`
			LogProbs    transport.LogProbs `json:"logprobs"`
		} `json:"content"`
	}
	if err := json.Unmarshal(raw, &message); err != nil {
		return fmt.Errorf("message: %w", err)
	}

	for _, part := range message.Content {
		o.sources = append(o.sources, part.Annotations...)
		switch {
		case part.Type == "refusal":
			o.refusal = cmp.Or(part.Refusal, "refused without words")
		case part.Type == "output_text" && message.Phase != "commentary": // commentary is not the answer
			o.text.WriteString(part.Text)
			o.tokens = append(o.tokens, part.LogProbs...)
		}
	}
	return nil
}

// addReasoning adds the summary, or the complete thoughts, which only open models show.
func (o *output) addReasoning(raw json.RawMessage) {
	type texts []struct {
		Text string `json:"text"`
	}
	var item struct {
		Summary texts `json:"summary"`
		Content texts `json:"content"`
	}
	_ = json.Unmarshal(raw, &item) // keeps what could be read
	shown := item.Summary
	if len(shown) == 0 {
		shown = item.Content
	}
	for _, part := range shown {
		if part.Text != "" {
			o.reasoning = append(o.reasoning, part.Text)
		}
	}
}

// addSearch counts billed searches: completed searches, but not pages opened after them.
func (o *output) addSearch(raw json.RawMessage) {
	var item struct {
		Status string `json:"status"`
		Action struct {
			Type    string             `json:"type"`
			Query   string             `json:"query"` // of older models
			Queries []string           `json:"queries"`
			Sources []providers.Source `json:"sources"`
			URL     string             `json:"url"` // address of an opened page
		} `json:"action"`
	}

	_ = json.Unmarshal(raw, &item) // keeps what could be read
	if item.Status != "" && item.Status != statusCompleted {
		return
	}
	action := item.Action
	if action.Type == "" || action.Type == "search" {
		o.searches++
	}
	if len(action.Queries) == 0 && action.Query != "" {
		action.Queries = []string{action.Query}
	}
	o.queries = append(o.queries, action.Queries...)
	o.sources = append(o.sources, action.Sources...)
	o.sources = append(o.sources, providers.Source{URL: action.URL})
}

// citations are the pages that a text's annotations name.
type citations []providers.Source

// UnmarshalJSON never fails: it skips other annotations and unknown forms.
func (c *citations) UnmarshalJSON(raw []byte) error {
	var annotations []struct {
		Type string `json:"type"`
		providers.Source
	}
	_ = json.Unmarshal(raw, &annotations) // keeps what could be read
	for _, annotation := range annotations {
		if annotation.Type == "url_citation" {
			*c = append(*c, annotation.Source)
		}
	}
	return nil
}

type usage struct {
	Input        transport.Count   `json:"input_tokens"`
	Output       transport.Count   `json:"output_tokens"`
	Cost         transport.Dollars `json:"cost"`              // USD, of gateways
	Ticks        transport.Ticks   `json:"cost_in_usd_ticks"` // xAI
	InputDetails struct {
		Cached  transport.Count `json:"cached_tokens"`
		Written transport.Count `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputDetails struct {
		Reasoning transport.Count `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

// UnmarshalJSON never fails: a field of unknown form is left empty, without affecting the others.
func (u *usage) UnmarshalJSON(raw []byte) error {
	type fields usage
	_ = json.Unmarshal(raw, (*fields)(u))
	return nil
}

func (u *usage) normalised(tier transport.Tier) providers.Usage {
	if u == nil {
		return providers.Usage{}
	}
	return providers.Usage{
		Reported:  true,
		Input:     int64(u.Input),
		Output:    int64(u.Output),
		Cached:    int64(u.InputDetails.Cached),
		Written:   int64(u.InputDetails.Written),
		Reasoning: int64(u.OutputDetails.Reasoning),
		Tier:      string(tier),
		CostUSD:   cmp.Or(u.Cost.USD, u.Ticks.USD),
	}
}
