package ollama

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// response has the fields read from an answer; the others are only in Result.Raw.
type response struct {
	Error   *json.RawMessage `json:"error"`
	Model   string           `json:"model"`
	Message struct {
		Content  string `json:"content"`
		Thinking string `json:"thinking"`
	} `json:"message"`
	Done       bool            `json:"done"`
	DoneReason string          `json:"done_reason"`
	Prompt     transport.Count `json:"prompt_eval_count"`
	Output     transport.Count `json:"eval_count"` // includes thoughts
	// LogProbs has the tokens of the part, those of thoughts, too.
	LogProbs transport.LogProbs `json:"logprobs"`
}

// join reads a response: a single part, or the parts of one that was streamed although it was requested as a whole.
func (r *response) join(parts []json.RawMessage) error {
	text, thoughts := "", ""
	for _, raw := range parts {
		if err := json.Unmarshal(raw, r); err != nil {
			return err
		}
		text += r.Message.Content
		thoughts += r.Message.Thinking
		r.Message.Content, r.Message.Thinking = "", ""
	}
	r.Message.Content, r.Message.Thinking = text, thoughts
	return nil
}

// decode turns a whole answer into a result; its error is a *providers.Error.
func decode(answer *transport.Answer) (*providers.Result, error) {
	var r response
	parts, _ := answer.Parts()
	if parts == nil {
		parts = []json.RawMessage{answer.Body}
	}
	if err := r.join(parts); err != nil {
		if json.Valid(answer.Body) { // such as an error whose message is a text
			return nil, answer.Without(err.Error())
		}
		return nil, answer.Malformed(err)
	}
	if r.Error != nil {
		return nil, answer.FailureIn(*r.Error)
	}
	result := &providers.Result{
		Text:      r.Message.Content,
		Reasoning: r.Message.Thinking,
		// The server omits counts of 0; older servers do not count a prompt that they have cached.
		Usage:     providers.Usage{Reported: r.Prompt > 0, Input: int64(r.Prompt), Output: int64(r.Output)},
		Model:     r.Model,
		RequestID: answer.RequestID,
		Limits:    answer.Limits(),
		Raw:       answer.Body,
		Tokens:    r.LogProbs,
	}
	if text, ok := transport.Misfiled(result.Reasoning); ok && r.Done && r.DoneReason != "length" && strings.TrimSpace(result.Text) == "" {
		result.Text, result.Reasoning = text, ""
	}
	switch {
	case !r.Done && result.Text == "" && result.Reasoning == "":
		return nil, answer.Without("no message")
	case !r.Done:
		return nil, answer.Fail(providers.Transient, "the answer broke off")
	case r.DoneReason == "length":
		result.Finish = providers.FinishTruncated
	case result.Text == "" && (r.DoneReason == "stop" || r.DoneReason == ""):
		return nil, answer.Empty(result.Usage, result.Reasoning)
	case result.Text == "": // load and unload are reasons, too: nothing was generated
		return nil, answer.Fail(providers.Transient, fmt.Sprintf("the answer has no text; the server's reason is %q", r.DoneReason))
	default: // stop; older servers say nothing
		result.Finish = providers.FinishStop
	}

	return result, nil
}
