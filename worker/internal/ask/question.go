package ask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/eval/verdict"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/worker/internal/run"
)

// question is the content of a run's request, independent of the model.
type question struct {
	prompt.Prompt
	// read extracts the outcome from an answer. Its error tells the model that gave the answer what is wrong with it.
	read func(text string) (record.Run, error)
	// part extracts what can be used of the last answer that a model may give, if read cannot; nil: nothing.
	part func(text string) (record.Run, error)
	// chances extracts how probable each verdict was from an answer that could be read; nil: that is not asked.
	chances func(*providers.Result) *eval.Chances
	// enforced: models without a JSON mode are not asked.
	enforced bool
}

// question builds the run's question according to its kind. For a panel, dimensions are the positions of the dimensions
// to ask for. Its error is a *run.GaveUp if the run cannot be asked at all.
func (a *Asker) question(ctx context.Context, dimensions ...int) (*question, error) {
	asked := a.run.Evaluation.Asked
	texts, err := a.on.Evaluations.Texts(ctx, a.run.Task.Evaluation, a.run.Documents...)
	if err != nil {
		return nil, err
	}

	built, err := prompt.Build(asked, a.run.Task.Kind, prompt.About{
		First: a.run.Place.First, Second: a.run.Place.Second, Judge: a.run.Place.Judge, Dimensions: dimensions,
	}, texts)
	if err != nil {
		return nil, &run.GaveUp{Class: providers.BadRequest, Message: err.Error()}
	}

	q := &question{Prompt: built}
	switch a.run.Task.Kind {
	case eval.KindPairwise:
		q.read = a.readPairwise(verdict.Pairwise)
		if len(asked.Pairwise.Criteria) > 0 {
			q.part = a.readPairwise(verdict.PairwisePart)
		}
		if asked.Pairwise.Soft {
			q.chances = a.chances
		}
	case eval.KindSingle:
		q.read = a.readSingle
	case eval.KindRuns:
		q.read = readListed
		if asked.JSONOf(a.run.Task.Kind) != eval.JSONFalse {
			q.read = readListedJSON
		}
	case eval.KindPanel:
		q.read = a.readPanel
	case eval.KindPrompts: // any answer is accepted
		q.Messages = q.Written.At(a.run.Progress.Said)
	default:
		return nil, fmt.Errorf("run %s has an unknown kind: %q", a.run.Task.RunID(), a.run.Task.Kind)
	}

	return q, nil
}

// readPairwise returns a function that reads a verdict by read, and puts the ids of the documents in place of the names
// by which the judge saw them.
func (a *Asker) readPairwise(
	read func(text, first, second string, question *eval.Pairwise) (verdict.Pair, error),
) func(text string) (record.Run, error) {
	names := a.run.Evaluation.Asked.ShownAs(a.run.Documents)
	idOf := func(winner string) string {
		if i := slices.Index(names, winner); i >= 0 {
			return a.run.Documents[i].ID
		}
		return winner
	}

	return func(text string) (record.Run, error) {
		said, err := read(text, names[0], names[1], a.run.Evaluation.Asked.Pairwise)
		taken := record.Run{Winner: idOf(said.Winner), Degree: said.Degree, Reason: said.Reason}
		for _, p := range said.Criteria {
			taken.Criteria = append(taken.Criteria, record.Preference{Criterion: p.Criterion, Winner: idOf(p.Winner), Degree: p.Degree})
		}
		return taken, err
	}
}

// chances returns how probable each verdict on a pair was; nil: the tokens do not tell.
func (a *Asker) chances(result *providers.Result) *eval.Chances {
	names, question := a.run.Evaluation.Asked.ShownAs(a.run.Documents), a.run.Evaluation.Asked.Pairwise
	said, err := verdict.Pairwise(result.Text, names[0], names[1], question)
	if err != nil {
		return nil
	}
	tokens := make([]verdict.Token, len(result.Tokens))
	for i, token := range result.Tokens {
		tokens[i].Alternative = verdict.Alternative(token.Alternative)
		for _, other := range token.Top {
			tokens[i].Top = append(tokens[i].Top, verdict.Alternative(other))
		}
	}
	chances, ok := verdict.Soft(result.Text, tokens, names[0], names[1], question, said)
	if !ok {
		return nil
	}
	return &chances
}

func (a *Asker) readSingle(text string) (record.Run, error) {
	scores, err := verdict.Scores(text, a.run.Evaluation.Asked, a.run.Documents[0])
	return record.Run{Scores: scoresOf(scores)}, err
}

func scoresOf(scores []verdict.Score) []record.Score {
	recorded := make([]record.Score, len(scores))
	for i, s := range scores {
		recorded[i] = record.Score(s)
	}
	return recorded
}

// readListed accepts the answer of a listed run as it is.
func readListed(text string) (record.Run, error) {
	if strings.TrimSpace(text) == "" {
		return record.Run{}, errors.New("the answer is empty")
	}
	return record.Run{Answer: text}, nil
}

// readListedJSON extracts the JSON from a listed run's answer.
func readListedJSON(text string) (record.Run, error) {
	object, err := verdict.Object(text)
	return record.Run{Answer: string(object)}, err
}

func (a *Asker) readPanel(text string) (record.Run, error) {
	panel := a.run.Evaluation.Asked.Panel
	scores, err := verdict.Panel(text, panel.Dimensions[a.run.Place.Dimension:a.run.Place.Dimension+1], panel.Scale)
	return record.Run{Scores: scoresOf(scores)}, err
}

// readTogether extracts the scores of several dimensions from an answer. Dimensions with unusable scores are asked for
// one by one, not repaired.
func (a *Asker) readTogether(positions []int) func(text string) (record.Run, error) {
	panel := a.run.Evaluation.Asked.Panel
	dimensions := make([]eval.Dimension, len(positions))
	for i, position := range positions {
		dimensions[i] = panel.Dimensions[position]
	}
	return func(text string) (record.Run, error) {
		scores, corrupt := verdict.Batch(text, dimensions, panel.Scale)
		if len(corrupt) > 0 {
			a.run.Log().Warn().Strs("raw", corrupt).Msg("an answer is invalid for some dimensions; asking for these separately")
		}
		return record.Run{Scores: scoresOf(scores)}, nil
	}
}
