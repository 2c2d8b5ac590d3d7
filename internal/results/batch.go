package results

import (
	"context"
	"encoding/json"
	"io"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/openaibatch"
	"github.com/evalfleet/evalfleet/providers"
)

// batch writes the outcomes of a Batch file's requests in OpenAI's format for such results: one
// file for answered requests, one for failed ones.
type batch struct {
	e Evaluation
	r Reader
}

// files returns the output file and the error file.
func (b *batch) files(ctx context.Context) []file {
	of := func(state eval.State) func(io.Writer) error {
		return func(w io.Writer) error { return b.write(ctx, w, state.String()) }
	}
	name := eval.FileName(b.e.Plan.Name)
	return []file{
		{name + openaibatch.OutputEnding, of(eval.StateSucceeded)},
		{name + openaibatch.ErrorEnding, of(eval.StateFailed)},
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

func (b *batch) line(ctx context.Context, row PromptRow) (openaibatch.Result, error) {
	id := row.RunID(b.e.ID)
	outcome := openaibatch.Outcome{
		ID: id.String(), CustomID: row.Name, Ended: row.Ended, Truncated: row.Finish == string(providers.FinishTruncated),
		Refused: row.Finish == string(providers.FinishRefused), Class: string(row.Class), Message: row.Error,
	}
	var used providers.Usage
	for call, err := range b.r.Calls(ctx, id) {
		if err != nil {
			return openaibatch.Result{}, err
		}
		outcome.Status, outcome.RequestID = call.Status, call.RequestID
		if call.Generation == row.Generation && call.Class == "" {
			used = call.Usage
		}
	}

	if row.State != eval.StateSucceeded.String() {
		return outcome.Result(), nil
	}
	text, err := b.r.Text(ctx, b.e.Plan.Prompts.Rows[b.e.Plan.Prompts.List[row.Index].Row].Hash)
	if err != nil {
		return openaibatch.Result{}, err
	}
	if outcome.URL, err = openaibatch.URL(text); err != nil {
		return openaibatch.Result{}, err
	}
	if outcome.Answers = row.Answers; row.Answers == nil {
		outcome.Answers = []string{row.Answer}
	}
	if _, outcome.Model, err = eval.ParseTarget(row.AnsweredBy); err != nil {
		outcome.Model = row.AnsweredBy
	}
	if used.Reported {
		outcome.Usage = &openaibatch.Usage{Input: used.Input, Output: used.Output}
	}
	return outcome.Result(), nil
}
