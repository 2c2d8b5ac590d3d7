package results

import (
	"context"
	"encoding/json"
	"io"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/record"
)

// batch writes the outcomes of a Batch file's requests in OpenAI's format for results of such
// files: one for answered requests, one for failed ones.
type batch struct {
	e Evaluation
	r Reader
}

type batchLine struct {
	ID       string         `json:"id"`
	CustomID string         `json:"custom_id"`
	Response *batchResponse `json:"response"`
	Error    *batchError    `json:"error"`
}

type batchResponse struct {
	Status    int    `json:"status_code"`
	RequestID string `json:"request_id"`
	Body      any    `json:"body"`
}

type batchError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// files are both of them.
func (b *batch) files(ctx context.Context) []file {
	of := func(state eval.State) func(io.Writer) error {
		return func(w io.Writer) error { return b.write(ctx, w, state.String()) }
	}
	name := eval.FileName(b.e.Plan.Name)
	return []file{
		{name + "_output.jsonl", of(eval.StateSucceeded)},
		{name + "_error.jsonl", of(eval.StateFailed)},
	}
}

// write writes a line for every run in a state, in the order in which they ended.
func (b *batch) write(ctx context.Context, w io.Writer, state string) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for row, err := range b.r.PromptRows(ctx, b.e.ID) {
		if err != nil {
			return err
		}
		if row.State != state {
			continue
		}
		line, err := b.line(ctx, row)
		if err != nil {
			return err
		}
		if err := out.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) line(ctx context.Context, row PromptRow) (batchLine, error) {
	id := row.RunID(b.e.ID)
	line := batchLine{ID: "batch_req_" + id.String(), CustomID: row.Name}
	var last record.Call
	var used providers.Usage
	for call, err := range b.r.Calls(ctx, id) {
		if err != nil {
			return line, err
		}
		last = call
		if call.Generation == row.Generation && call.Class == "" {
			used = call.Usage
		}
	}
	switch {
	case row.State == eval.StateSucceeded.String():
		url, err := b.url(ctx, row)
		if err != nil {
			return line, err
		}
		line.Response = &batchResponse{200, last.RequestID, answerBody(url, id.String(), row, used)}
	case last.Status >= 400:
		body := map[string]any{"error": map[string]any{"message": row.Error, "type": string(row.Class), "param": nil, "code": string(row.Class)}}
		line.Response = &batchResponse{last.Status, last.RequestID, body}
	default:
		line.Error = &batchError{string(row.Class), row.Error}
	}
	return line, nil
}

// url is the endpoint for which the row's request was written.
func (b *batch) url(ctx context.Context, row PromptRow) (string, error) {
	text, err := b.r.Text(ctx, b.e.Plan.Prompts.Rows[b.e.Plan.Prompts.List[row.Index].Row].Hash)
	if err != nil {
		return "", err
	}
	var line struct {
		URL string `json:"url"`
	}
	err = json.Unmarshal([]byte(text), &line)
	return line.URL, err
}

// answerBody is an answer in the form of the requested endpoint, whichever provider gave it.
func answerBody(url, id string, row PromptRow, used providers.Usage) any {
	answers := row.Answers
	if answers == nil {
		answers = []string{row.Answer}
	}
	_, model, err := eval.ParseTarget(row.AnsweredBy)
	if err != nil {
		model = row.AnsweredBy
	}
	truncated := row.Finish == string(providers.FinishTruncated)
	if url == prompt.BatchResponses {
		return responseBody(id, model, answers, truncated, row, used)
	}
	finish := "stop"
	switch {
	case truncated:
		finish = "length"
	case row.Finish == string(providers.FinishRefused):
		finish = "content_filter"
	}
	choices := make([]any, len(answers))
	for i, answer := range answers {
		choices[i] = map[string]any{
			"index": i, "message": map[string]any{"role": "assistant", "content": answer, "refusal": nil},
			"logprobs": nil, "finish_reason": finish,
		}
	}
	body := map[string]any{
		"id": "chatcmpl-" + id, "object": "chat.completion", "created": row.Ended.Unix(), "model": model, "choices": choices,
	}
	if used.Reported {
		body["usage"] = map[string]any{
			"prompt_tokens": used.Input, "completion_tokens": used.Output, "total_tokens": used.Input + used.Output,
		}
	}
	return body
}

func responseBody(id, model string, answers []string, truncated bool, row PromptRow, used providers.Usage) any {
	status, incomplete := "completed", any(nil)
	if truncated {
		status, incomplete = "incomplete", map[string]any{"reason": "max_output_tokens"}
	}
	output := make([]any, len(answers))
	for i, answer := range answers {
		output[i] = map[string]any{
			"type": "message", "id": "msg_" + id, "status": status, "role": "assistant",
			"content": []any{map[string]any{"type": "output_text", "text": answer, "annotations": []any{}}},
		}
	}
	body := map[string]any{
		"id": "resp_" + id, "object": "response", "created_at": row.Ended.Unix(), "status": status, "error": nil,
		"incomplete_details": incomplete, "model": model, "output": output,
	}
	if used.Reported {
		body["usage"] = map[string]any{"input_tokens": used.Input, "output_tokens": used.Output, "total_tokens": used.Input + used.Output}
	}
	return body
}
