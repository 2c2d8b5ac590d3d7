package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
)

// Escalated reports whether a phase asks the strong judge about pairs that the other judges have seen.
func Escalated(e *eval.Evaluation, phase int) bool {
	if e.Strong() < 0 {
		return false
	}
	first := 0
	if e.Single != nil {
		first = 1
	}
	return phase == first+1
}

// StrongIn returns the name of the strong judge if the phase is its own; otherwise it is empty.
func StrongIn(e *eval.Evaluation, phase int) string {
	if !Escalated(e, phase) {
		return ""
	}
	return e.Judges[e.Strong()].Name
}

// escalated returns the pairs that the strong judge sees: all contested ones, and a random sample of the others. The
// sample depends on the evaluation's identity and on which pairs are contested, so that every process that chooses takes
// the same one.
func escalated(e *eval.Evaluation, found Found) (*Choice, error) {
	pairs, err := pairsOf(e, e.Documents, e.ID(), 0)
	if err != nil {
		return nil, err
	}
	for _, numbers := range [][]int{found.Contested, found.Agreed} {
		if !risesWithin(numbers, pairs.count()) {
			return nil, fmt.Errorf("pairs are not numbered from 0 to %d in order", pairs.count()-1)
		}
	}

	seed := newSeed(e.ID(), "escalate")
	drawn := slices.Clone(found.Agreed)
	lot := func(number int) uint64 { return mix(seed + uint64(number)) }
	slices.SortFunc(drawn, func(a, b int) int { return cmp.Or(cmp.Compare(lot(a), lot(b)), cmp.Compare(a, b)) })
	drawn = drawn[:Sampled(e.Escalate, len(drawn))]
	slices.Sort(drawn)
	return &Choice{Contested: slices.Clone(found.Contested), Sampled: drawn}, nil
}

// leastSampled is how many of the pairs that are not contested are sampled at least. With fewer, one surprising verdict
// would decide the ranking.
const leastSampled = 10

// Sampled returns how many of the pairs that are not contested the strong judge sees.
func Sampled(how *eval.Escalate, agreed int) int {
	return min(max(int(math.Ceil(how.Share*float64(agreed))), leastSampled), agreed)
}

// doubted enumerates some pairs of another phase, in pseudo-random order. If the phase ends early, the pairs it has had
// are then a random part of the contested ones, and of the sample.
type doubted struct {
	pairs
	numbers []int // ascending; nil: all
	order   permutation
}

// newDoubted enumerates the chosen pairs; all, if none have been chosen yet.
func newDoubted(e *eval.Evaluation, id eval.ID, choice *Choice) (pairs, error) {
	all, err := pairsOf(e, e.Documents, id, 0)
	if err != nil || choice == nil {
		return all, err
	}
	numbers := slices.Concat(choice.Contested, choice.Sampled)
	slices.Sort(numbers)
	if !risesWithin(numbers, all.count()) {
		return nil, errors.New("the chosen pairs are not different ones of the evaluation")
	}
	return doubted{all, numbers, newPermutation(newSeed(id, "escalated"), len(numbers))}, nil
}

func (d doubted) count() int { return len(d.numbers) }

func (d doubted) at(i int) (a, b int) { return d.pairs.at(d.numbers[d.order.at(i)]) }

// risesWithin reports whether numbers are different, ascending, and from 0 to n−1.
func risesWithin(numbers []int, n int) bool {
	for i, number := range numbers {
		if number < 0 || number >= n || i > 0 && number <= numbers[i-1] {
			return false
		}
	}
	return true
}

// validateEscalate reports the first reason why a strong judge cannot see only some of the pairs.
func validateEscalate(e *eval.Evaluation) error {
	how := e.Escalate
	if how == nil {
		return nil
	}
	switch mode := e.Pairwise.Pairs.Mode; {
	case len(e.Judges) < 2:
		return errors.New("only the strong judge is there: want another one that sees all pairs first")
	case !(how.Share > 0 && how.Share <= 1): // also rejects NaN
		return fmt.Errorf("share is %v: want a share of the pairs that are not contested, above 0 and at most 1", how.Share)
	case len(how.When) == 0:
		return errors.New("nothing says when a pair is contested")
	case mode == eval.PairsSwiss || mode == eval.PairsGrown:
		return fmt.Errorf("pairs are chosen in rounds (%s), so there is no set of all pairs that the strong judge sees a part of", mode)
	case e.Pairwise.TopN > 0:
		return errors.New("top_n chooses the documents by scores, which a strong judge does not give")
	}
	for _, doubt := range how.When {
		if !slices.Contains(eval.Doubts(), doubt) {
			return fmt.Errorf("a pair is contested when %q: want %v", doubt, eval.Doubts())
		}
	}
	return nil
}

// EscalatedPairs returns the documents of the pairs of e that are numbered as in Choice.Contested, the lower position
// first.
func EscalatedPairs(e *eval.Evaluation, numbers []int) ([][2]int, error) {
	all, err := pairsOf(e, e.Documents, e.ID(), 0)
	if err != nil {
		return nil, err
	}
	if !risesWithin(numbers, all.count()) {
		return nil, errors.New("the chosen pairs are not different ones of the evaluation")
	}
	documents := make([][2]int, len(numbers))
	for i, number := range numbers {
		a, b := all.at(number)
		documents[i] = [2]int{min(a, b), max(a, b)}
	}
	return documents, nil
}
