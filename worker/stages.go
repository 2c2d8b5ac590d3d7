package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/record"
)

// unableDelay is how long a run stays in its queue for another worker after one that cannot
// call its provider had it.
const unableDelay = 15 * time.Second

// inTwo reports whether the JSON that a step wants takes a call of its own.
func (r *run) inTwo(s step) bool {
	of := r.cfg.Endpoints[s.target.Provider].Capabilities
	return s.request.Schema != nil && of != nil &&
		of(s.target.Model).TwoCalls(s.request.Search, r.evaluation.asked.JSONOf(r.task.Kind) == eval.JSONTrue)
}

// firstOfTwo gets the answer in prose, unless it is there from before, and returns
// the step that asks for its JSON. Its errors are those of answered.
func (r *run) firstOfTwo(ctx context.Context, s step, q *question) (step, error) {
	schema := s.request.Schema
	jsonify := r.evaluation.asked.Jsonify
	if jsonify == nil {
		return step{}, &gaveUp{class: providers.BadRequest, message: s.target.Target() +
			" cannot produce the requested JSON in one call, and the evaluation has no jsonify"}
	}
	writer := eval.Judge{Name: "jsonify", Provider: jsonify.Provider, Model: jsonify.Model}
	endpoint, able := r.cfg.Endpoints[writer.Provider]
	if !able {
		return step{}, r.unable(writer)
	}
	if r.progress.AnswerBy != s.target.Target() {
		s.stage, s.request.Schema, s.request.Messages = stageGrounded, nil, messages(q.Prose())
		if err := r.inProse(ctx, s); err != nil {
			return step{}, err
		}
	}
	return step{writer, stageJSON, &providers.Request{
		Key: endpoint.Key, Model: writer.Model, Messages: messages(q.Jsonify(r.progress.Answer)), Schema: schema,
		Temperature: jsonify.Temperature, MaxOutputTokens: jsonify.MaxOutputTokens,
	}}, nil
}

// inProse gets an answer in prose and keeps it where a failing second call, another
// worker or a crash finds it: it is paid for once.
func (r *run) inProse(ctx context.Context, s step) error {
	result, err := r.answered(ctx, s)
	if err != nil {
		return err
	}
	if cut := cutShort(s, result); cut != nil {
		return cut
	}
	switch {
	case strings.TrimSpace(result.Text) == "":
		return &gaveUp{class: providers.Malformed, message: "the answer is empty", status: 200}
	case len(result.Text) > record.MaxAnswer:
		return &gaveUp{class: providers.Malformed, message: fmt.Sprintf("the answer has %d bytes, more than the %d that are kept", len(result.Text), record.MaxAnswer), status: 200}
	}
	r.progress.Answer, r.progress.AnswerBy = result.Text, s.target.Target()
	return r.save()
}

// unable gives the run back to be done by a worker that can call a model, and says
// once that this one cannot.
func (r *run) unable(target eval.Judge) error {
	r.sayUnserved(target, "runs that need this provider in a queue that is served for another go back there")
	return r.goBack(unableDelay, "this worker cannot call "+target.Target())
}

// sayUnserved logs the consequence for runs that need a provider which this worker cannot call,
// once for each provider.
func (r *run) sayUnserved(target eval.Judge, consequence string) {
	if _, said := r.unserved.LoadOrStore(target.Provider, true); !said {
		r.log.Warn().Str("provider", target.Provider).Str("model", target.Model).
			Msg(consequence + ": this provider is not configured here, or its key is missing")
	}
}

// lacking is what an answer does not show although it must; nil: nothing. A refusal
// is none.
func (r *run) lacking(s step, result *providers.Result) *providers.Error {
	asked := r.evaluation.asked
	lacking := func(class providers.Class, message string) *providers.Error {
		return &providers.Error{Class: class, Status: 200, Message: message, RequestID: result.RequestID, MayBeBilled: true}
	}
	switch {
	case result.Finish == providers.FinishRefused:
	case s.request.Search && asked.Grounded(r.task.Kind) && !result.Grounding.Evident():
		return lacking(providers.Ungrounded, "the answer shows no search, which is required")
	case s.request.Reason && asked.Reasoned(r.task.Kind) && result.Reasoning == "" && result.Usage.Reasoning == 0:
		return lacking(providers.Unreasoned, "the answer shows no reasoning, which is required")
	}
	return nil
}

// insist is what a step asks, and asks more firmly once an answer has lacked the
// evidence that is required.
func (r *run) insist(s step, asked []providers.Message) []providers.Message {
	if r.progress.Lacked == "" || !s.request.Search && !s.request.Reason {
		return asked
	}
	firmer := slices.Clone(asked)
	last := &firmer[len(firmer)-1]
	last.Content = prompt.Insist(last.Content, s.request.Search, s.request.Reason)
	return firmer
}
