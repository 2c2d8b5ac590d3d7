package results

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/plan"
	"github.com/evalfleet/evalfleet/eval/rank"
)

// Found reads the results that determine what e's phase compares (plan.Choose): the scores of
// documents, each the mean over judges, criteria and trials; or their candidates' abilities
// (Bradley–Terry, ties as half wins, all judges together); or the pairs about which the first judges
// are in doubt. Answers of fallback models count. It
// reads all of these rows. Every run of the earlier phases must be in the results store.
func Found(ctx context.Context, r Reader, id eval.ID, e *eval.Evaluation, phase int) (plan.Found, error) {
	documents := make(map[string]int, len(e.Documents))
	for i, d := range e.Documents {
		documents[d.ID] = i
	}

	var found plan.Found
	var err error
	switch plan.BasisOf(e, phase) {
	case plan.ByScores:
		found.Scores, err = meanScores(ctx, r, id, e, documents)
		for i := range found.Scores { // a text that fails a gate is never among the best
			if _, barred := e.Barred(e.Documents[i]); barred {
				found.Scores[i] = math.NaN()
			}
		}
	case plan.ByDoubts:
		found.Contested, found.Agreed, err = doubts(ctx, r, id, e, phase-1)
	case plan.ByVerdicts:
		found.Abilities, err = abilities(ctx, r, id, e, documents)
		if round := plan.PlacingRound(e, phase); err == nil && round > 1 {
			found.Placed, err = placed(ctx, r, id, e)
		}
	}
	if err != nil {
		return plan.Found{}, fmt.Errorf("read what phase %d of %s is chosen by: %w", phase, id, err)
	}
	return found, nil
}

func meanScores(ctx context.Context, r Reader, id eval.ID, e *eval.Evaluation, documents map[string]int) ([]float64, error) {
	sums, counts := make([]float64, len(documents)), make([]float64, len(documents))
	for row, err := range Scores(e, r.SingleRows(ctx, id)) {
		if err != nil {
			return nil, err
		}
		i, known := documents[row.Document]
		if !known {
			return nil, fmt.Errorf("a score for %q, which is not part of the evaluation", row.Document)
		}
		sums[i] += row.Score
		counts[i]++
	}
	for i := range sums {
		if sums[i] /= counts[i]; counts[i] == 0 {
			sums[i] = math.NaN()
		}
	}
	return sums, nil
}

func abilities(ctx context.Context, r Reader, id eval.ID, e *eval.Evaluation, documents map[string]int) ([]float64, error) {
	candidates := map[string]int{}
	of := make([]int, len(e.Documents)) // the candidate of each document
	for i, d := range e.Documents {
		if _, known := candidates[d.Candidate]; !known {
			candidates[d.Candidate] = len(candidates)
		}
		of[i] = candidates[d.Candidate]
	}

	tally := rank.NewTally(len(candidates))
	for row, err := range r.PairwiseRows(ctx, id) {
		if err != nil {
			return nil, err
		}
		first, known1 := documents[row.Document1]
		second, known2 := documents[row.Document2]
		if !known1 || !known2 {
			return nil, fmt.Errorf("a verdict on %q and %q, which are not part of the evaluation", row.Document1, row.Document2)
		}
		outcome := rank.Tied
		switch row.Winner {
		case row.Document1:
			outcome = rank.FirstWins
		case row.Document2:
			outcome = rank.SecondWins
		}
		if of[first] == of[second] { // such a pair says nothing about the candidate
			continue
		}
		if err := tally.Add(rank.Comparison{First: of[first], Second: of[second], Outcome: outcome}); err != nil {
			return nil, err
		}
	}

	fit, err := rank.BradleyTerry(len(candidates), []*rank.Tally{tally}, rank.Options{Ties: rank.HalfWins})
	if err != nil {
		return nil, err
	}
	values := make([]float64, len(of))
	for i, candidate := range of {
		values[i] = math.Round(fit.Abilities[candidate]*1e9) / 1e9 // make values equal that differ only by rounding
	}
	return values, nil
}

// placed returns the newcomers whose rank is known after a round. Each look between two rounds spends its part of the
// error probability.
func placed(ctx context.Context, r Reader, id eval.ID, e *eval.Evaluation) ([]string, error) {
	looks := plan.Placing(e.Pairwise.Pairs.Opponents) - 1
	names, u, err := certainty(ctx, r, id, e, func(PairwiseRow) bool { return true }, rank.PlacingLevel(looks))
	if err != nil {
		return nil, err
	}
	var known []string
	for i, name := range names {
		if slices.Contains(e.Pairwise.Pairs.Newcomers, name) && u.Placed(i) {
			known = append(known, name)
		}
	}
	return known, nil
}

// Compared returns the pairs of documents, by their positions, about which an evaluation has a verdict, also of a fallback
// or one that followed without a call. If pairs are shown in one order, the document that was shown first is in front.
func Compared(ctx context.Context, r Reader, id eval.ID, e *eval.Evaluation) ([][2]int, error) {
	documents := make(map[string]int, len(e.Documents))
	for i, d := range e.Documents {
		documents[d.ID] = i
	}

	seen := map[[2]int]bool{}
	for row, err := range r.PairwiseRows(ctx, id) {
		if err != nil {
			return nil, err
		}
		first, known1 := documents[row.Document1]
		second, known2 := documents[row.Document2]
		if !known1 || !known2 {
			continue
		}
		pair := [2]int{first, second}
		if e.Pairwise.Order == eval.OrderBoth {
			pair = [2]int{min(first, second), max(first, second)}
		}
		seen[pair] = true
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) }), nil
}
