package openaibatch

import (
	"time"
)

// Outcome says how a request ended.
type Outcome struct {
	ID        string // of the run
	CustomID  string // of the request
	RequestID string // of the last call, as the provider named it
	Status    int    // of the last call
	URL       string // endpoint that the request was written for, if it was answered
	Model     string // model that answered
	Ended     time.Time

	Answers   []string // nil: it failed
	Truncated bool     // the answer was cut off at its token limit
	Refused   bool     // the answer is a refusal
	Usage     *Usage   // of the calls that answered; nil: not reported

	Class, Message string // of the failure
}

// Usage counts tokens.
type Usage struct{ Input, Output int64 }

// Result is a line of a result file, ready for encoding/json.
type Result struct {
	ID       string    `json:"id"`
	CustomID string    `json:"custom_id"`
	Response *Response `json:"response"`
	Error    *Error    `json:"error"`
}

// Response is what an endpoint answered.
type Response struct {
	Status    int    `json:"status_code"`
	RequestID string `json:"request_id"`
	Body      any    `json:"body"`
}

// Error says why there is no response.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// The endings of the names of result files, after the name of the request file.
const (
	OutputEnding = "_output.jsonl" // answered requests
	ErrorEnding  = "_error.jsonl"  // failed requests
)

// Result returns the line of an outcome. It holds the answer in the form of the requested endpoint, whichever
// provider gave it, or the error.
func (o Outcome) Result() Result {
	line := Result{ID: "batch_req_" + o.ID, CustomID: o.CustomID}
	switch {
	case o.Answers != nil && o.URL == Responses:
		line.Response = &Response{200, o.RequestID, o.response()}
	case o.Answers != nil:
		line.Response = &Response{200, o.RequestID, o.completion()}
	case o.Status >= 400:
		body := map[string]any{"error": map[string]any{"message": o.Message, "type": o.Class, "param": nil, "code": o.Class}}
		line.Response = &Response{o.Status, o.RequestID, body}
	default:
		line.Error = &Error{o.Class, o.Message}
	}
	return line
}

func (o Outcome) completion() any {
	finish := "stop"
	switch {
	case o.Truncated:
		finish = "length"
	case o.Refused:
		finish = "content_filter"
	}

	choices := make([]any, len(o.Answers))
	for i, answer := range o.Answers {
		choices[i] = map[string]any{
			"index": i, "message": map[string]any{"role": "assistant", "content": answer, "refusal": nil},
			"logprobs": nil, "finish_reason": finish,
		}
	}

	body := map[string]any{
		"id": "chatcmpl-" + o.ID, "object": "chat.completion", "created": o.Ended.Unix(), "model": o.Model, "choices": choices,
	}
	if o.Usage != nil {
		body["usage"] = map[string]any{
			"prompt_tokens": o.Usage.Input, "completion_tokens": o.Usage.Output, "total_tokens": o.Usage.Input + o.Usage.Output,
		}
	}

	return body
}

func (o Outcome) response() any {
	status, incomplete := "completed", any(nil)
	if o.Truncated {
		status, incomplete = "incomplete", map[string]any{"reason": "max_output_tokens"}
	}
	output := make([]any, len(o.Answers))
	for i, answer := range o.Answers {
		output[i] = map[string]any{
			"type": "message", "id": "msg_" + o.ID, "status": status, "role": "assistant",
			"content": []any{map[string]any{"type": "output_text", "text": answer, "annotations": []any{}}},
		}
	}
	body := map[string]any{
		"id": "resp_" + o.ID, "object": "response", "created_at": o.Ended.Unix(), "status": status, "error": nil,
		"incomplete_details": incomplete, "model": o.Model, "output": output,
	}
	if o.Usage != nil {
		body["usage"] = map[string]any{
			"input_tokens": o.Usage.Input, "output_tokens": o.Usage.Output, "total_tokens": o.Usage.Input + o.Usage.Output,
		}
	}
	return body
}
