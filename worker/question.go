package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/eval/verdict"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/record"
)

// question is the content of a run's request, independent of the model.
type question struct {
	prompt.Prompt
	// read takes the outcome out of an answer. Its error tells the model that gave the answer
	// what is wrong with it.
	read func(text string) (record.Run, error)
	// enforced: the question is not asked of a model without a JSON mode.
	enforced bool
}

// question is the run's, by its kind. Its error is a *gaveUp when the run cannot be
// asked at all.
func (r *run) question(ctx context.Context) (*question, error) {
	return r.questionOf(ctx, r.place.Dimension)
}

// questionOf is question, of a panel for the dimensions at some positions.
func (r *run) questionOf(ctx context.Context, dimensions ...int) (*question, error) {
	asked := r.evaluation.asked
	texts, err := r.evaluations.textsOf(ctx, r.task.Evaluation, r.documents...)
	if err != nil {
		return nil, err
	}
	built, err := prompt.Build(asked, r.task.Kind, prompt.About{
		First: r.place.First, Second: r.place.Second, Judge: r.place.Judge, Dimensions: dimensions,
	}, texts)
	if err != nil {
		return nil, &gaveUp{class: providers.BadRequest, message: err.Error()}
	}
	q := &question{Prompt: built}
	switch r.task.Kind {
	case eval.KindPairwise:
		q.read = r.readPairwise
	case eval.KindSingle:
		q.read = r.readSingle
	case eval.KindRuns:
		q.read = readListed
		if asked.JSONOf(r.task.Kind) != eval.JSONFalse {
			q.read = readListedJSON
		}
	case eval.KindPanel:
		q.read = r.readPanel
	case eval.KindPrompts: // any answer is accepted
		q.Messages = q.Written.At(r.progress.Said)
	default:
		return nil, fmt.Errorf("run %s has an unknown kind: %q", r.task.RunID(), r.task.Kind)
	}
	return q, nil
}

func (r *run) readPairwise(text string) (record.Run, error) {
	asked := r.evaluation.asked
	names := asked.ShownAs(r.documents)
	winner, reason, err := verdict.Pairwise(text, names[0], names[1], asked.Pairwise.Ties)
	if i := slices.Index(names, winner); i >= 0 {
		winner = r.documents[i].ID
	}
	return record.Run{Winner: winner, Reason: reason}, err
}

func (r *run) readSingle(text string) (record.Run, error) {
	asked := r.evaluation.asked.Single
	scores, err := verdict.Single(text, asked.Criteria, asked.Scale)
	return record.Run{Scores: scoresOf(scores)}, err
}

func scoresOf(scores []verdict.Score) []record.Score {
	recorded := make([]record.Score, len(scores))
	for i, s := range scores {
		recorded[i] = record.Score(s)
	}
	return recorded
}

// readListed takes the answer of a listed run as it is.
func readListed(text string) (record.Run, error) {
	if strings.TrimSpace(text) == "" {
		return record.Run{}, errors.New("the answer is empty")
	}
	return record.Run{Answer: text}, nil
}

// readListedJSON takes the JSON of a listed run's answer.
func readListedJSON(text string) (record.Run, error) {
	object, err := verdict.Object(text)
	return record.Run{Answer: string(object)}, err
}
