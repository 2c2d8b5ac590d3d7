package reuse

import (
	"cmp"
	"context"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/results"
)

// mostAskings bounds how many earlier times are remembered, the newest ones.
const mostAskings = 20

// History returns what the judges of an evaluation of anchors said about these before, oldest first: in every other
// evaluation of anchors that the results stores have, as far as it asked exactly the same. Verdicts of other models, such as
// fallbacks, are not theirs.
func History(ctx context.Context, e *eval.Evaluation, in ...results.Reader) (all []eval.Asking, err error) {
	known := map[eval.ID]bool{e.ID(): true}
	asks := newQuestions(e, eval.KindPairwise)
	for _, reader := range in {
		listed, err := reader.Evaluations(ctx)
		if err != nil {
			return nil, err
		}
		for _, one := range listed {
			if known[one.ID] || !eval.AsksAnchors(one.Name) {
				continue
			}
			stored, err := reader.Evaluation(ctx, one.ID)
			if err != nil {
				return nil, err
			}
			if stored.Plan.Anchors == nil || stored.Plan.Pairwise == nil {
				continue
			}
			known[one.ID] = true
			asking, err := asks.heard(ctx, stored, reader)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(asking.Judges, func(a eval.AnchorAnswer) bool { return a.Said != "" }) {
				all = append(all, asking)
			}
		}
	}

	slices.SortFunc(all, func(a, b eval.Asking) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Evaluation, b.Evaluation)) })
	return all[max(0, len(all)-mostAskings):], nil
}

// Source is the part of a results store that says what judges said about anchors.
type Source interface {
	answered
	Named(ctx context.Context, id eval.ID) (map[string][]string, error)
}

// Heard returns what the judges of a recorded evaluation of anchors said about them.
func Heard(ctx context.Context, stored results.Evaluation, reader Source) (eval.Asking, error) {
	return newQuestions(stored.Plan, eval.KindPairwise).heard(ctx, stored, reader)
}

// heard returns what an evaluation of anchors has recorded about the questions of another one, or its own.
func (q *questions) heard(ctx context.Context, stored results.Evaluation, reader Source) (eval.Asking, error) {
	said := map[digest]byte{} // the letter, if the text shown first is the first of the anchor
	from := &earlier{id: stored.ID, kind: eval.KindPairwise, plan: stored.Plan, reader: reader}
	had := newQuestions(stored.Plan, eval.KindPairwise)
	for answer, err := range from.outcomes(ctx) {
		if err != nil {
			return eval.Asking{}, err
		}
		if question, ok := had.of(answer.judge, answer.first, answer.second, answer.trial); ok && !answer.other {
			said[question] = "=12"[answer.winner]
		}
	}

	named, err := reader.Named(ctx, stored.ID)
	if err != nil {
		return eval.Asking{}, err
	}
	asking := eval.Asking{Evaluation: stored.ID, Name: stored.Plan.Name, At: stored.Created}
	for k, judge := range q.e.Judges {
		letters := make([]byte, 0, 2*len(q.e.Items))
		heard := false
		for first := 0; first+1 < len(q.shown); first += 2 {
			for order, pair := range [][2]int{{first, first + 1}, {first + 1, first}} {
				letter := byte(eval.SaidNothing)
				if question, ok := q.of(k, pair[0], pair[1], 1); ok {
					if has, answered := said[question]; answered {
						letter, heard = inTextOrder(has, order), true
					}
				}
				letters = append(letters, letter)
			}
		}
		var answer eval.AnchorAnswer
		if heard {
			answer = eval.AnchorAnswer{Said: string(letters), Named: named[judge.Target()]}
		}
		asking.Judges = append(asking.Judges, answer)
	}
	return asking, nil
}

// inTextOrder returns the letter of a verdict on the texts of an anchor, if it was given on them in one of two orders.
func inTextOrder(letter byte, order int) byte {
	switch {
	case order == 0:
		return letter
	case letter == eval.SaidFirst:
		return eval.SaidSecond
	case letter == eval.SaidSecond:
		return eval.SaidFirst
	}
	return letter
}
