package generate

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// response has the fields read from an answer; the others are only in Result.Raw.
type response struct {
	Error          *json.RawMessage `json:"error"` // gateways send errors with status 200
	Candidates     []candidate      `json:"candidates"`
	PromptFeedback struct {
		BlockReason        string `json:"blockReason"`
		BlockReasonMessage string `json:"blockReasonMessage"`
	} `json:"promptFeedback"`
	Usage *usage `json:"usageMetadata"`
	Model string `json:"modelVersion"`
}

type candidate struct {
	Content struct {
		Parts []struct {
			Text     string   `json:"text"`
			Thought  bool     `json:"thought"`
			ToolCall toolCall `json:"toolCall"`
		} `json:"parts"`
	} `json:"content"`
	FinishReason  string            `json:"finishReason"`
	FinishMessage string            `json:"finishMessage"`
	Grounding     groundingMetadata `json:"groundingMetadata"`
	Safety        ratings           `json:"safetyRatings"`
	URLContext    json.RawMessage   `json:"urlContextMetadata"` // from a tool that an override added
	LogProbs      logProbs          `json:"logprobsResult"`
}

// decode turns a whole answer into a result; its error is a *providers.Error.
func decode(answer *transport.Answer) (*providers.Result, error) {
	var r response
	parts, _ := answer.Parts()
	var err error
	if parts == nil {
		err = json.Unmarshal(answer.Body, &r)
	} else {
		err = r.join(parts)
	}

	switch {
	case err != nil:
		return nil, answer.Malformed(err)
	case r.Error != nil && parts != nil:
		return nil, answer.FailureIn(*r.Error)
	case r.Error != nil:
		return nil, answer.Failure()
	}

	result := &providers.Result{
		Usage:     r.Usage.normalised(),
		Model:     r.Model,
		RequestID: answer.RequestID,
		Limits:    answer.Limits(),
		Raw:       answer.Body,
	}

	if reason := r.PromptFeedback.BlockReason; reason != "" {
		result.Finish = providers.FinishRefused
		result.Reason = strings.TrimSpace(reason + " " + r.PromptFeedback.BlockReasonMessage)
		result.Text = cmp.Or(r.PromptFeedback.BlockReasonMessage, "the prompt was blocked: "+reason)
		return result, nil
	}

	if len(r.Candidates) == 0 {
		return nil, answer.Without("no candidates")
	}
	c := r.Candidates[0]
	if broken := c.finish(result); broken != "" {
		return nil, answer.Fail(providers.Transient, broken)
	}
	if result.Finish == providers.FinishStop && result.Text == "" {
		return nil, answer.Empty(result.Usage, result.Reasoning)
	}
	result.Tokens = c.LogProbs.tokens()
	result.Grounding = c.evidence()
	result.Grounding.Safety = c.Safety
	if len(c.URLContext) > 0 {
		result.Usage.Tools = 0 // tokens of pages read are charged, unlike those of search results
	}
	for _, other := range r.Candidates[1:] {
		text, _ := other.texts()
		result.Others = append(result.Others, text)
	}

	return result, nil
}

// texts returns the candidate's text and its model's thoughts.
func (c *candidate) texts() (text, thoughts string) {
	var said, thought strings.Builder
	for _, part := range c.Content.Parts {
		if part.Thought {
			thought.WriteString(part.Text)
		} else {
			said.WriteString(part.Text)
		}
	}
	return said.String(), thought.String()
}

// finish copies the candidate's text and finish reason. broken describes an error that another
// attempt may avoid; empty: none.
func (c *candidate) finish(result *providers.Result) (broken string) {
	result.Text, result.Reasoning = c.texts()
	switch c.FinishReason {
	case "STOP", "":
		result.Finish = providers.FinishStop
	case "MAX_TOKENS", "CONTINUATION":
		result.Finish = providers.FinishTruncated
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR":
		result.Finish = providers.FinishRefused
		result.Reason = strings.TrimSpace(c.FinishReason + " " + c.FinishMessage)
		result.Text = cmp.Or(result.Text, c.FinishMessage, "the answer was stopped: "+c.FinishReason)
	default: // MALFORMED_FUNCTION_CALL, UNEXPECTED_TOOL_CALL, OTHER, …: only one good end exists
		return strings.TrimSpace("the answer broke off: " + c.FinishReason + " " + c.FinishMessage)
	}
	return ""
}

type groundingMetadata struct {
	Queries []string `json:"webSearchQueries"`
	Chunks  []struct {
		Web struct {
			URI   string `json:"uri"`
			Title string `json:"title"`
		} `json:"web"`
	} `json:"groundingChunks"`
}

// UnmarshalJSON never fails: unreadable input is no evidence.
func (m *groundingMetadata) UnmarshalJSON(raw []byte) error {
	type fields groundingMetadata
	_ = json.Unmarshal(raw, (*fields)(m))
	return nil
}

// ratings are Google's ratings of harm in the candidate.
type ratings []providers.SafetyRating

// UnmarshalJSON never fails: it skips unreadable ratings.
func (r *ratings) UnmarshalJSON(raw []byte) error {
	var all []providers.SafetyRating
	if json.Unmarshal(raw, &all) == nil {
		*r = all
	}
	return nil
}

// toolCall is a call of one of Google's own tools, in an answer that shows them.
type toolCall struct {
	Type string `json:"toolType"`
	Args struct {
		Queries []string `json:"queries"`
	} `json:"args"`
}

// UnmarshalJSON never fails: unreadable input is no evidence.
func (t *toolCall) UnmarshalJSON(raw []byte) error {
	type fields toolCall
	_ = json.Unmarshal(raw, (*fields)(t))
	return nil
}

// evidence returns the evidence of searches: the candidate's metadata, which is empty without a search, and the calls
// of the tool. From Gemini 3 on, Google charges for each different query that is not empty; for older models it charges
// once for all queries of a call: https://ai.google.dev/gemini-api/docs/google-search#pricing
func (c *candidate) evidence() providers.Grounding {
	asked := slices.Clone(c.Grounding.Queries)
	for _, part := range c.Content.Parts {
		if part.ToolCall.Type == "GOOGLE_SEARCH_WEB" {
			asked = append(asked, part.ToolCall.Args.Queries...)
		}
	}
	var queries []string
	for _, query := range asked {
		if query != "" && !slices.Contains(queries, query) {
			queries = append(queries, query)
		}
	}
	sources := make([]providers.Source, len(c.Grounding.Chunks))
	for i, chunk := range c.Grounding.Chunks {
		sources[i] = providers.Source{URL: chunk.Web.URI, Title: chunk.Web.Title}
	}
	return providers.Grounding{Searches: len(queries), Queries: queries, Sources: providers.UniqueSources(sources)}
}

type usage struct {
	Prompt     transport.Count `json:"promptTokenCount"` // includes cached ones
	Tools      transport.Count `json:"toolUsePromptTokenCount"`
	Cached     transport.Count `json:"cachedContentTokenCount"`
	Candidates transport.Count `json:"candidatesTokenCount"`
	Thoughts   transport.Count `json:"thoughtsTokenCount"`
	Tier       transport.Tier  `json:"serviceTier"`

	reported bool
}

// UnmarshalJSON never fails: usage of unknown form counts as not reported.
func (u *usage) UnmarshalJSON(raw []byte) error {
	type fields usage
	u.reported = json.Unmarshal(raw, (*fields)(u)) == nil
	return nil
}

func (u *usage) normalised() providers.Usage {
	if u == nil {
		return providers.Usage{}
	}
	return providers.Usage{
		Reported:  u.reported,
		Input:     int64(u.Prompt + u.Tools),
		Output:    int64(u.Candidates + u.Thoughts),
		Cached:    int64(u.Cached),
		Reasoning: int64(u.Thoughts),
		Tools:     int64(u.Tools),
		Tier:      string(u.Tier),
	}
}
