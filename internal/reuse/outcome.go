package reuse

import (
	"context"
	"iter"
	"slices"

	"github.com/evalfleet/evalfleet/enqueue/record"
	"github.com/evalfleet/evalfleet/eval"
)

// outcome is a recorded run of an earlier evaluation by positions in its plan, with what was answered.
type outcome struct {
	run                         run
	judge, first, second, trial int
	winner                      int // of a pair: 1 or 2, in the order shown; 0: a tie
	degree                      int // of a pair: record.Run.Degree
	criteria                    []preference
	chances                     *eval.Chances // of a pair, in the order shown
	by                          string        // of a pair: the model that answered; empty: none was asked
	other                       bool          // of a pair: not the model that was to be asked
	reason                      string
	scores                      []record.Score
	text                        string
	texts                       []string
	finish                      string
}

// preference is a verdict on a pair by one criterion.
type preference struct {
	criterion string
	winner    int // as outcome.winner
	degree    int
}

// outcomes yields the answers of an evaluation, by phase and index. Those of other models than were to be asked are only
// among verdicts, and marked.
func (f *earlier) outcomes(ctx context.Context) iter.Seq2[outcome, error] {
	switch f.kind {
	case eval.KindSingle:
		return f.scores(ctx)
	case eval.KindPairwise:
		return f.verdicts(ctx)
	}
	return f.responses(ctx)
}

// places returns the positions of an evaluation's judges and documents by their names.
func (f *earlier) places() (judges, documents map[string]int) {
	judges, documents = map[string]int{}, map[string]int{}
	for i, judge := range f.plan.JudgesOf(f.kind) {
		judges[judge.Name] = i
	}
	for i, document := range f.plan.Shown(f.kind) {
		documents[document.ID] = i
	}
	return judges, documents
}

func (f *earlier) verdicts(ctx context.Context) iter.Seq2[outcome, error] {
	return func(yield func(outcome, error) bool) {
		judges, documents := f.places()
		for row, err := range f.reader.PairwiseRows(ctx, f.id) {
			if err != nil {
				yield(outcome{}, err)
				return
			}
			judge, knownJudge := judges[row.Judge]
			first, knownFirst := documents[row.Document1]
			second, knownSecond := documents[row.Document2]
			if !knownJudge || !knownFirst || !knownSecond {
				continue
			}

			o := outcome{
				run: runAt(row.Phase, row.Index), judge: judge, first: first, second: second, trial: row.Trial, reason: row.Reason,
				by: row.AnsweredBy, other: row.AnsweredBy != row.Model,
			}
			position := func(winner string) int { return 1 + slices.Index([]string{row.Document1, row.Document2}, winner) }
			o.winner, o.degree, o.chances = position(row.Winner), row.Degree, row.Chances
			for _, p := range row.Criteria {
				o.criteria = append(o.criteria, preference{p.Criterion, position(p.Winner), p.Degree})
			}
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (f *earlier) scores(ctx context.Context) iter.Seq2[outcome, error] {
	return func(yield func(outcome, error) bool) {
		judges, documents := f.places()
		var o outcome
		for row, err := range f.reader.SingleRows(ctx, f.id) {
			if err != nil {
				yield(outcome{}, err)
				return
			}
			judge, knownJudge := judges[row.Judge]
			document, knownDocument := documents[row.Document]
			if !knownJudge || !knownDocument || row.AnsweredBy != row.Model {
				continue
			}

			if at := runAt(row.Phase, row.Index); len(o.scores) == 0 || o.run != at { // the rows of a run follow each other
				if len(o.scores) > 0 && !yield(o, nil) {
					return
				}
				o = outcome{run: at, judge: judge, first: document, second: -1, trial: row.Trial}
			}
			o.scores = append(o.scores, record.Score{Criterion: row.Criterion, Score: row.Score, Reason: row.Reason})
		}
		if len(o.scores) > 0 {
			yield(o, nil)
		}
	}
}

func (f *earlier) responses(ctx context.Context) iter.Seq2[outcome, error] {
	return func(yield func(outcome, error) bool) {
		nth := occurrences(f.plan, eval.KindPrompts)
		at := map[string]int{}
		for i, prompt := range f.plan.Prompts.List {
			at[prompt.ID] = i
		}

		for row, err := range f.reader.Responses(ctx, f.id) {
			if err != nil {
				yield(outcome{}, err)
				return
			}
			i, known := at[row.Name]
			if !known || row.State != eval.StateSucceeded.String() || row.AnsweredBy != row.Model {
				continue
			}
			prompt := f.plan.Prompts.List[i]
			if !yield(outcome{
				run: runAt(row.Phase, row.Index), judge: prompt.Model, first: prompt.Row, second: -1, trial: nth[i],
				text: row.Answer, texts: row.Answers, finish: row.Finish,
			}, nil) {
				return
			}
		}
	}
}
