package messages

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// message has the fields read from an answer; the others are only in Result.Raw.
type message struct {
	Error       *json.RawMessage  `json:"error"` // gateways send errors with status 200
	Content     []json.RawMessage `json:"content"`
	StopReason  string            `json:"stop_reason"`
	StopDetails struct {
		Category    string `json:"category"`
		Explanation string `json:"explanation"`
	} `json:"stop_details"`
	Container struct {
		ID string `json:"id"`
	} `json:"container"`
	Usage *usage `json:"usage"`
	Model string `json:"model"`
}

// turn is the answer to one call, in one part or, after pauses, in several.
type turn struct {
	parts    int
	content  []json.RawMessage // as received, because it is sent back unchanged
	blocks   []block           // the same, parsed
	usage    providers.Usage
	searches int // searches that the usage counts
	raw      []byte
	last     message
	answer   *transport.Answer // from which last was read
}

// add reads one more answer; its error is a *providers.Error.
func (t *turn) add(answer *transport.Answer) error {
	var m message
	parts, _ := answer.Parts()
	body := json.RawMessage(answer.Body)
	if parts != nil {
		var err error
		if body, err = joined(parts); err != nil {
			return answer.Malformed(err)
		}
	}

	if err := json.Unmarshal(body, &m); err != nil {
		return answer.Malformed(err)
	}

	switch {
	case m.Error != nil && parts != nil:
		return answer.FailureIn(*m.Error)
	case m.Error != nil:
		return answer.Failure()
	case m.StopReason == "" && len(m.Content) == 0:
		return answer.Without("no content")
	}

	for _, raw := range m.Content {
		var b block
		if err := json.Unmarshal(raw, &b); err != nil {
			return answer.Malformed(err)
		}
		t.blocks = append(t.blocks, b)
	}

	t.content = append(t.content, m.Content...)
	if t.parts > 0 {
		t.raw = append(t.raw, '\n')
	}
	t.raw = append(t.raw, answer.Body...)
	if err := answer.Fits(len(t.raw)); err != nil {
		return err
	}
	t.usage = m.Usage.addTo(t.usage, t.parts == 0)
	t.searches += m.Usage.searches()
	t.parts++
	t.last, t.answer = m, answer
	return nil
}

func (t *turn) paused() bool { return t.last.StopReason == "pause_turn" }

// resume returns the request body that makes the model continue after a pause: the same body with the model's output so
// far behind the turns that were asked.
func (t *turn) resume(body object, asked []any) object {
	body = maps.Clone(body)
	body["messages"] = append(slices.Clip(asked), object{"role": "assistant", "content": t.content})
	if id := t.last.Container.ID; id != "" {
		body["container"] = id // newer searches run their filters in it
	}
	return body
}

// result returns the result of the whole turn; its error is a *providers.Error.
func (t *turn) result() (*providers.Result, error) {
	text, thoughts := t.texts()
	result := &providers.Result{
		Text:      text,
		Reasoning: thoughts,
		Grounding: t.grounding(),
		Usage:     t.usage,
		Model:     t.last.Model,
		RequestID: t.answer.RequestID,
		Limits:    t.answer.Limits(),
		Raw:       t.raw,
	}

	switch t.last.StopReason {
	case "max_tokens", "model_context_window_exceeded", "pause_turn":
		result.Finish = providers.FinishTruncated
		if t.last.StopReason != "max_tokens" { // that needs no explanation
			result.Reason = t.last.StopReason
		}
	case "refusal":
		result.Finish = providers.FinishRefused
		result.Reason = strings.Trim(t.last.StopDetails.Category+": "+t.last.StopDetails.Explanation, ": ")
		result.Text = cmp.Or(text, t.last.StopDetails.Explanation, "the model refused")
	case "tool_use":
		return nil, t.answer.Fail(providers.Transient, "the answer broke off: the model called a tool that is not run")
	default: // end_turn, stop_sequence
		if transport.Filtered(t.last.StopReason) { // from a compatible endpoint
			result.Finish, result.Reason = providers.FinishRefused, t.last.StopReason
			return result, nil
		}
		if text == "" {
			return nil, t.answer.Empty(t.usage, thoughts)
		}
		result.Finish = providers.FinishStop
	}

	return result, nil
}

// texts returns the text and the visible thoughts. An answer with citations has a block for each. Two blocks of text
// with other blocks in between are separated by an empty line.
func (t *turn) texts() (text, thoughts string) {
	var said, thought strings.Builder
	apart := false
	for _, b := range t.blocks {
		switch b.Type {
		case "text":
			if apart && said.Len() > 0 {
				said.WriteString("\n\n")
			}
			said.WriteString(b.Text)
			apart = false
		case "thinking":
			thought.WriteString(b.Thinking)
			apart = true
		default:
			apart = true
		}
	}
	return said.String(), thought.String()
}

type usage struct {
	Input         transport.Count `json:"input_tokens"` // without cached ones
	CacheRead     transport.Count `json:"cache_read_input_tokens"`
	CacheCreation transport.Count `json:"cache_creation_input_tokens"`
	Output        transport.Count `json:"output_tokens"` // includes thinking
	OutputDetails struct {
		Thinking transport.Count `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
	ServiceTier transport.Tier `json:"service_tier"`
	ServerTools struct {
		Searches transport.Count `json:"web_search_requests"`
	} `json:"server_tool_use"`

	reported bool
}

// UnmarshalJSON never fails: usage of unknown form counts as not reported.
func (u *usage) UnmarshalJSON(raw []byte) error {
	type fields usage
	u.reported = json.Unmarshal(raw, (*fields)(u)) == nil
	return nil
}

// addTo adds the usage of one part. A number that one of the parts does not report counts as not reported.
func (u *usage) addTo(sum providers.Usage, first bool) providers.Usage {
	if u == nil {
		sum.Reported = false
		return sum
	}
	sum.Reported = u.reported && (first || sum.Reported)
	sum.Input += int64(u.Input + u.CacheRead + u.CacheCreation)
	sum.Output += int64(u.Output)
	sum.Cached += int64(u.CacheRead)
	sum.Written += int64(u.CacheCreation)
	sum.Reasoning += int64(u.OutputDetails.Thinking)
	sum.Tier = cmp.Or(string(u.ServiceTier), sum.Tier)
	return sum
}

func (u *usage) searches() int {
	if u == nil {
		return 0
	}
	return int(u.ServerTools.Searches)
}
