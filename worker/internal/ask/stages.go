package ask

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker/internal/call"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// unableDelay is how long a run stays in its queue after a worker that cannot call its provider has returned it.
const unableDelay = 15 * time.Second

// inTwo reports whether a step needs two calls: one for the answer in prose and one for its JSON.
func (a *Asker) inTwo(s call.Step) bool {
	of := a.on.Endpoints[s.Target.Provider].Capabilities
	return s.Request.Schema != nil && of != nil &&
		of(s.Target.Model).TwoCalls(s.Request.Search, a.run.Evaluation.Asked.JSONOf(a.run.Task.Kind) == eval.JSONTrue)
}

// firstOfTwo gets the answer in prose, unless it was stored earlier, and returns the step that asks for its JSON. Its
// errors are those of answered.
func (a *Asker) firstOfTwo(ctx context.Context, s call.Step, q *question) (call.Step, error) {
	schema := s.Request.Schema
	jsonify := a.run.Evaluation.Asked.Jsonify
	if jsonify == nil {
		return call.Step{}, &run.GaveUp{Class: providers.BadRequest, Message: s.Target.Target() +
			" cannot produce the requested JSON in one call, and the evaluation has no jsonify"}
	}
	writer := eval.Judge{Name: "jsonify", Provider: jsonify.Provider, Model: jsonify.Model}
	endpoint, able := a.on.Endpoints[writer.Provider]
	if !able {
		return call.Step{}, a.Unable(ctx, writer)
	}
	if a.run.Progress.AnswerBy != s.Target.Target() {
		s.Stage, s.Request.Schema, s.Request.Messages = call.StageGrounded, nil, a.shown(s.Target, q.Prose())
		s.Request.Prefixes = prefixes(nil) // a search, which costs more, comes between
		if err := a.inProse(ctx, s); err != nil {
			return call.Step{}, err
		}
	}
	return call.Step{Target: writer, Stage: call.StageJSON, Request: &providers.Request{
		Key: endpoint.Key, Model: writer.Model, Messages: messages(q.Jsonify(a.run.Progress.Answer)), Schema: schema,
		Prefixes: prefixes(nil), Temperature: jsonify.Temperature, MaxOutputTokens: jsonify.MaxOutputTokens,
	}}, nil
}

// inProse gets an answer in prose and stores it in the run's progress. If the second call fails, or the worker crashes,
// the answer is not paid for again.
func (a *Asker) inProse(ctx context.Context, s call.Step) error {
	result, err := a.answered(ctx, s)
	if err != nil {
		return err
	}
	if cut := cutShort(s, result); cut != nil {
		return cut
	}
	switch {
	case strings.TrimSpace(result.Text) == "":
		return &run.GaveUp{Class: providers.Malformed, Message: "the answer is empty", Status: 200}
	case len(result.Text) > record.MaxAnswer:
		return &run.GaveUp{
			Class:   providers.Malformed,
			Message: fmt.Sprintf("the answer has %d bytes; at most %d are kept", len(result.Text), record.MaxAnswer),
			Status:  200,
		}
	}
	a.run.Progress.Answer, a.run.Progress.AnswerBy = result.Text, s.Target.Target()
	return a.run.Save(ctx)
}

// Unable returns the run to its queue for a worker that can call the model, and logs once that this worker cannot.
func (a *Asker) Unable(ctx context.Context, target eval.Judge) error {
	a.on.SayUnserved(target, "runs that need this provider are returned to their queue")
	return a.run.GoBack(ctx, unableDelay, "this worker cannot call "+target.Target())
}

// insist returns the messages that a step sends. If an earlier answer lacked required evidence of a search or of
// reasoning, the last message asks for it more firmly.
func (a *Asker) insist(s call.Step, asked []providers.Message) []providers.Message {
	if a.run.Progress.Lacked == "" || !s.Request.Search && !s.Request.Reason {
		return asked
	}
	firmer := slices.Clone(asked)
	last := &firmer[len(firmer)-1]
	last.Content = prompt.Insist(last.Content, s.Request.Search, s.Request.Reason)
	return firmer
}
