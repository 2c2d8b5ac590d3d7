package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/record"
)

// maxRepairs is how often a model is asked to repair an unusable answer.
const maxRepairs = 2

// ask asks for the run's answer and records the result.
func (r *run) ask(ctx context.Context) error {
	q, err := r.question(ctx)
	var outcome *record.Run
	if err == nil {
		outcome, err = r.askAny(ctx, q)
	}
	return r.conclude(outcome, err)
}

// conclude records what asking came to, or passes on why it was interrupted.
func (r *run) conclude(outcome *record.Run, err error) error {
	var over *gaveUp
	switch {
	case errors.As(err, &over):
		return r.fail(over)
	case err != nil:
		return err
	}
	return r.succeed(*outcome)
}

// askOne asks one model until its answer can be used. Its errors are those of
// answered.
func (r *run) askOne(ctx context.Context, target eval.Judge, q *question) (*record.Run, error) {
	if q.Written != nil {
		return r.converse(ctx, target, q)
	}
	s := step{target, stageVerdict, r.request(target, q)}
	if r.task.Kind == eval.KindRuns {
		s.stage = stageAnswer
	}
	if r.inTwo(s) {
		var err error
		if s, err = r.firstOfTwo(ctx, s, q); err != nil {
			return nil, err
		}
	}
	asked := s.request.Messages
	if r.progress.Unusable > maxRepairs {
		return nil, &gaveUp{class: providers.Malformed, message: fmt.Sprintf("%d answers could not be used", r.progress.Unusable), status: 200}
	}
	for {
		result, err := r.answered(ctx, s)
		if err != nil {
			return nil, err
		}
		outcome, err := r.taken(q, target, result)
		if err == nil {
			return outcome, nil
		}
		if cut := cutShort(s, result); cut != nil {
			return nil, cut
		}
		if r.progress.Unusable++; r.progress.Unusable > maxRepairs {
			return nil, &gaveUp{class: providers.Malformed, message: err.Error(), status: 200}
		}
		s.stage = stageRepair
		if r.task.Kind != eval.KindRuns { // its prompt must not be extended: it is asked once more
			s.request.Messages = append(slices.Clip(asked), messages(prompt.Repair(result.Text, err.Error()))...)
		}
	}
}

// taken is the outcome found in an answer.
func (r *run) taken(q *question, from eval.Judge, result *providers.Result) (*record.Run, error) {
	outcome, err := q.read(result.Text)
	if err != nil {
		return nil, err
	}
	outcome.AnsweredBy = from.Target()
	if r.task.Kind == eval.KindRuns {
		outcome.Finish = string(result.Finish)
	}
	return &outcome, nil
}

// request is the call that asks a model a question.
func (r *run) request(target eval.Judge, q *question) *providers.Request {
	asked := r.evaluation.asked
	request := &providers.Request{
		Key: r.cfg.Endpoints[target.Provider].Key, Model: target.Model, Messages: messages(q.Messages),
		Search: asked.Grounded(r.task.Kind) || r.background(target) != nil, Reason: asked.Reasoned(r.task.Kind),
		BoundSearches: r.evaluation.record.Settings.Budget() > 0, // which reserves as many
	}
	if asked.JSONOf(r.task.Kind) != eval.JSONFalse && q.Schema != nil {
		request.Schema = &providers.Schema{Name: q.SchemaName, Schema: q.Schema, Open: q.Open, Enforced: q.enforced}
	}
	settings(request, target.Overrides)
	return request
}

// settings puts a judge's overrides into its calls: the common ones into their
// fields, the rest into the body as they are.
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

func messages(built []prompt.Message) []providers.Message {
	out := make([]providers.Message, len(built))
	for i, m := range built {
		out[i] = providers.Message{Role: providers.Role(m.Role), Content: m.Content}
	}
	return out
}
