// Package ask asks models for the answer of a run: in one call or two, or in turns. It asks again after failures and
// unusable answers, and asks another model once one gives up.
//
// Package call makes the calls, and package task records the answer.
package ask

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker/internal/call"
	"github.com/evalfleet/evalfleet/worker/internal/fallback"
	"github.com/evalfleet/evalfleet/worker/internal/run"
	"github.com/evalfleet/evalfleet/worker/internal/tokens"
)

// MaxRepairs is how often a model is asked to repair an unusable answer.
const MaxRepairs = 2

// Asker asks for the answer of one run. It is used by one goroutine.
type Asker struct {
	on     *run.Session
	tokens *tokens.Learnt
	run    *run.Execution
	calls  *call.Calls
	chain  *fallback.Chain
}

// New returns an Asker for a run. It makes its calls with calls and takes fallback models from chain.
func New(on *run.Session, learnt *tokens.Learnt, r *run.Execution, calls *call.Calls, chain *fallback.Chain) *Asker {
	return &Asker{on: on, tokens: learnt, run: r, calls: calls, chain: chain}
}

// Ask asks for the run's answer. Its error is a *run.GaveUp if there will be no answer; any other error means that the
// run was interrupted.
func (a *Asker) Ask(ctx context.Context) (*record.Run, error) {
	q, err := a.question(ctx, a.run.Place.Dimension)
	if err != nil {
		return nil, err
	}
	return a.askAny(ctx, q)
}

// AskTogether asks for the scores of a panel's dimensions at several positions. The result contains the scores that
// could be used. Errors are as in Ask.
func (a *Asker) AskTogether(ctx context.Context, positions []int) (*record.Run, error) {
	q, err := a.question(ctx, positions...)
	if err != nil {
		return nil, err
	}
	q.read, q.enforced = a.readTogether(positions), true
	return a.askAny(ctx, q)
}

// askOne asks one model until its answer can be used. Its errors are those of answered.
func (a *Asker) askOne(ctx context.Context, target eval.Judge, q *question) (*record.Run, error) {
	if q.Written != nil {
		return a.converse(ctx, target, q)
	}
	s := call.Step{Target: target, Stage: call.StageVerdict, Request: a.request(target, q)}
	if a.run.Task.Kind == eval.KindRuns {
		s.Stage = call.StageAnswer
	}
	if a.inTwo(s) {
		var err error
		if s, err = a.firstOfTwo(ctx, s, q); err != nil {
			return nil, err
		}
	}

	asked := s.Request.Messages
	if a.run.Progress.Unusable > MaxRepairs {
		return nil, &run.GaveUp{
			Class: providers.Malformed, Message: fmt.Sprintf("%d answers could not be used", a.run.Progress.Unusable),
			Status: 200,
		}
	}

	for {
		result, err := a.answered(ctx, s)
		if err != nil {
			return nil, err
		}
		outcome, err := a.taken(q, target, result)
		if err == nil {
			return outcome, nil
		}
		if cut := cutShort(s, result); cut != nil {
			return nil, cut
		}
		if a.run.Progress.Unusable++; a.run.Progress.Unusable > MaxRepairs {
			return nil, &run.GaveUp{Class: providers.Malformed, Message: err.Error(), Status: 200}
		}
		s.Stage = call.StageRepair
		if a.run.Task.Kind != eval.KindRuns { // its prompt must not be extended: the same question is asked again
			s.Request.Messages = append(slices.Clip(asked), messages(prompt.Repair(result.Text, err.Error()))...)
		}
	}
}

// taken returns the outcome that an answer contains, or an error that says what is wrong with the answer.
func (a *Asker) taken(q *question, from eval.Judge, result *providers.Result) (*record.Run, error) {
	outcome, err := q.read(result.Text)
	if err != nil && q.part != nil && a.run.Progress.Unusable == MaxRepairs { // rather than lose the run
		if part, partErr := q.part(result.Text); partErr == nil {
			outcome, err = part, nil
		}
	}
	if err != nil {
		return nil, err
	}
	outcome.AnsweredBy = from.Target()
	if q.chances != nil {
		outcome.Chances = q.chances(result)
	}
	if a.run.Task.Kind == eval.KindRuns {
		outcome.Finish = string(result.Finish)
	}
	return &outcome, nil
}

// request returns the request that puts a question to a model.
func (a *Asker) request(target eval.Judge, q *question) *providers.Request {
	asked := a.run.Evaluation.Asked
	request := &providers.Request{
		LogProbs: q.chances != nil,
		Key:      a.on.Endpoints[target.Provider].Key, Model: target.Model, Messages: a.shown(target, q.Messages),
		Search: asked.Grounded(a.run.Task.Kind) || a.calls.InBackground(target), Reason: a.mustReason(target),
		BoundSearches: a.run.Settings().Budget() > 0, // a budget reserves the cost of the bound
	}
	if q.Written == nil { // else the prompts are not known to repeat anything
		request.Prefixes = prefixes(q.Repeats)
	}
	if asked.JSONOf(a.run.Task.Kind) != eval.JSONFalse && q.Schema != nil {
		request.Schema = &providers.Schema{Name: q.SchemaName, Schema: q.Schema, Open: q.Open, Enforced: q.enforced}
	}
	settings(request, target.Overrides)
	return request
}

// mustReason reports whether the answers of a model must show that it reasoned.
func (a *Asker) mustReason(target eval.Judge) bool {
	return a.run.Evaluation.Asked.Reasoned(a.run.Task.Kind) && !slices.Contains(a.run.Settings().Unreasoning, target.Target())
}

// settings copies a judge's overrides into a request: the common ones into its fields, the rest into the body
// unchanged.
func settings(request *providers.Request, overrides map[string]any) {
	for key, value := range overrides {
		number, isNumber := asFloat(value)
		text, isText := value.(string)
		switch {
		case key == "max_completion_tokens" && isNumber:
			request.MaxOutputTokens = int(number)
		case key == "temperature" && isNumber:
			request.Temperature = &number
		case key == "reasoning_effort" && isText:
			request.ReasoningEffort = text
		default:
			if request.Extra == nil {
				request.Extra = map[string]any{}
			}
			request.Extra[key] = value
		}
	}
}

func asFloat(value any) (float64, bool) {
	switch n := value.(type) {
	case float64:
		return n, true
	case int:
		return float64(n), true
	}
	return 0, false
}

// prefixes returns a request's Prefixes; never nil.
func prefixes(repeats []prompt.Position) []providers.Prefix {
	all := make([]providers.Prefix, len(repeats))
	for i, end := range repeats {
		all[i] = providers.Prefix{Message: end.Message, Offset: end.Offset}
	}
	return all
}

// shown returns messages with their images, as they are sent to a model.
func (a *Asker) shown(target eval.Judge, built []eval.Message) []providers.Message {
	var can providers.Capabilities
	if of := a.on.Endpoints[target.Provider].Capabilities; of != nil {
		can = of(target.Model)
	}
	out := messages(built)
	for i, m := range built {
		for _, shown := range m.Images {
			image := providers.Image{
				Offset: shown.Offset, Detail: shown.Detail, Width: shown.Width, Height: shown.Height,
				Tokens: can.ImageTokens(shown.Width, shown.Height),
			}
			if shown.Type == "" {
				image.URL = shown.Content
			} else {
				image.Type = shown.Type
				_, image.Data, _ = strings.Cut(shown.Content, ",")
			}
			out[i].Images = append(out[i].Images, image)
		}
	}
	return out
}

// messages returns messages without their images.
func messages(built []eval.Message) []providers.Message {
	out := make([]providers.Message, len(built))
	for i, m := range built {
		out[i] = providers.Message{Role: providers.Role(m.Role), Content: m.Content}
	}
	return out
}
