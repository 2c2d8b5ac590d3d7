package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
)

// A grown evaluation adds newcomers to a ranking. Its first pairwise phase has the recorded pairs of the ranking. In the
// rounds that follow, documents of newcomers meet documents of the others. The first round meets all parts of the
// ranking, each later one those near the newcomer in the ranking so far. Rounds grow: each doubles the pairs. The
// number of pairs depends on the opponents of a document, not on the number of candidates.
const (
	mostPlacing = 4 // rounds
	// closeBy is the difference in log-odds up to which opponents are equally good: they win 27 to 73 %, and a verdict on them
	// tells at least 79 % of what one on an equal does. With the very nearest alone, candidates that are overrated would
	// meet others that are overrated as much, and intervals of equals would hold in .92 instead of .95.
	closeBy = 1.0
)

// Opponents is how many opponents a document of a newcomer has by default.
const Opponents = 8

// MostOpponents is how many opponents a document of a newcomer has at most.
const MostOpponents = 1000

// Placing returns how many rounds place newcomers.
func Placing(opponents int) int { return min(mostPlacing, bits.Len(uint(max(opponents, 1)-1))+1) }

// Recorded reports whether a phase repeats what an earlier evaluation has recorded.
func Recorded(e *eval.Evaluation, phase int) bool {
	phases := Phases(e)
	return phase >= 0 && phase < len(phases) && phases[phase] == eval.KindPairwise && e.Pairwise.Pairs.Mode == eval.PairsGrown &&
		phase == slices.Index(phases, eval.KindPairwise)
}

// PlacingRound returns the number, from 1, of the round of newcomers that a phase is; 0: it is none.
func PlacingRound(e *eval.Evaluation, phase int) int {
	phases := Phases(e)
	if e.Pairwise == nil || e.Pairwise.Pairs.Mode != eval.PairsGrown || phase < 0 || phase >= len(phases) {
		return 0
	}
	return max(phase-slices.Index(phases, eval.KindPairwise), 0)
}

// placing chooses pairs of newcomers in one round.
type placing struct {
	e         *eval.Evaluation
	round     int
	met       map[[2]int]bool // pairs of earlier rounds
	abilities []float64       // by document; nil: all are equal
	placed    []string        // newcomers that need no more pairs
}

// pairs returns the pairs of the round as Choice.Pairs has them.
func (p placing) pairs() [][]int {
	lists := [][]int{}
	for start, end := range items(p.e.Documents) {
		own, opponents := p.split(start, end)
		partners := map[int][]int{}
		for _, newcomer := range own {
			if slices.Contains(p.placed, p.e.Documents[newcomer].Candidate) {
				continue
			}
			for _, opponent := range p.of(newcomer, opponents) {
				low := min(newcomer, opponent)
				partners[low] = append(partners[low], max(newcomer, opponent))
			}
		}

		for low := start; low < end; low++ {
			if len(partners[low]) > 0 {
				slices.Sort(partners[low])
				lists = append(lists, append([]int{low}, partners[low]...))
			}
		}
	}
	return lists
}

// split returns the documents of newcomers in an item, and those of others with the best first.
func (p placing) split(start, end int) (own, others []int) {
	for i := start; i < end; i++ {
		if _, is := slices.BinarySearch(p.e.Pairwise.Pairs.Newcomers, p.e.Documents[i].Candidate); is {
			own = append(own, i)
		} else {
			others = append(others, i)
		}
	}
	if p.abilities != nil {
		slices.SortStableFunc(others, func(a, b int) int { return cmp.Compare(p.abilities[b], p.abilities[a]) })
	}
	return own, others
}

// of returns the opponents of a newcomer's document.
func (p placing) of(newcomer int, opponents []int) []int {
	before, n := p.until(p.round-1, newcomer, len(opponents)), p.until(p.round, newcomer, len(opponents))
	if p.round == 1 {
		return p.spread(newcomer, opponents, n)
	}
	left := slices.DeleteFunc(slices.Clone(opponents), func(i int) bool { return p.met[[2]int{min(i, newcomer), max(i, newcomer)}] })
	if n = min(n-before, len(left)); p.abilities == nil {
		return left[:n]
	}

	apart := func(i int) float64 { return math.Abs(p.abilities[i] - p.abilities[newcomer]) }
	if equals := slices.DeleteFunc(slices.Clone(left), func(i int) bool { return apart(i) > closeBy }); len(equals) >= n {
		return p.spread(newcomer, equals, n)
	}
	slices.SortStableFunc(left, func(a, b int) int { return cmp.Compare(apart(a), apart(b)) })
	return left[:n]
}

// until returns how many opponents a document has met after a round. Each round doubles them. A part of an opponent is
// one for that share of the documents.
func (p placing) until(round, newcomer, opponents int) int {
	most := min(p.e.Pairwise.Pairs.Opponents, opponents)
	if round <= 0 {
		return 0
	}
	exact := float64(most) / float64(int(1)<<(Placing(p.e.Pairwise.Pairs.Opponents)-round))
	return min(int(exact+p.offset(newcomer)), most)
}

// spread returns n of some opponents from equal parts of their ranking. The documents of a newcomer take turns in the parts.
func (p placing) spread(newcomer int, opponents []int, n int) []int {
	chosen := make([]int, 0, n)
	for k := range n {
		chosen = append(chosen, opponents[int((float64(k)+p.offset(newcomer))*float64(len(opponents))/float64(n))])
	}
	return chosen
}

// offset returns a number in [0, 1) for a document. Those of successive items are spread evenly.
func (p placing) offset(newcomer int) float64 {
	_, part := math.Modf(float64(p.e.Documents[newcomer].Item+1) * (math.Sqrt(5) - 1) / 2)
	return part
}

// placingPairs enumerates the pairs of a round before it is chosen. Their number is a maximum.
func placingPairs(e *eval.Evaluation, phase int) pairs {
	return newGrouped(placing{e: e, round: PlacingRound(e, phase)}.pairs())
}

// nextPlacing returns what a round of newcomers compares.
func nextPlacing(e *eval.Evaluation, phase int, choices []*Choice, found Found) (*Choice, error) {
	p := placing{
		e: e, round: PlacingRound(e, phase), met: map[[2]int]bool{}, abilities: found.Abilities, placed: found.Placed,
	}
	for _, choice := range choices[phase-p.round+1 : phase] {
		if choice == nil {
			return nil, fmt.Errorf("choose phase %d: an earlier round is not chosen", phase)
		}
		for _, list := range choice.Pairs {
			for _, other := range list[1:] {
				p.met[[2]int{list[0], other}] = true
			}
		}
	}
	return &Choice{Pairs: p.pairs()}, nil
}

// validateGrown reports the first reason why newcomers cannot be added.
func validateGrown(e *eval.Evaluation) error {
	p := e.Pairwise.Pairs
	switch {
	case e.Pairwise.TopN > 0:
		return errors.New("newcomers are not compared by their scores: top_n is set")
	case p.Opponents < 1 || p.Opponents > MostOpponents:
		return fmt.Errorf("newcomers have %d opponents: want 1 to %d", p.Opponents, MostOpponents)
	case len(p.Newcomers) == 0 || !slices.IsSorted(p.Newcomers):
		return errors.New("the newcomers are not sorted names")
	}

	for _, pair := range p.Listed {
		for _, i := range pair {
			if i < 0 || i >= len(e.Documents) {
				continue // validateListed reports it
			}
			if name := e.Documents[i].Candidate; slices.Contains(p.Newcomers, name) {
				return fmt.Errorf("candidate %q is a newcomer, and has recorded pairs", name)
			}
		}
	}

	if placingCount(e) == 0 {
		return errors.New("newcomers have no opponents: no item has a document of one and one of another candidate")
	}
	return validateListed(e)
}

// placingCount returns how many pairs of newcomers there may be at most.
func placingCount(e *eval.Evaluation) (n int) {
	for round := range Placing(e.Pairwise.Pairs.Opponents) {
		n += newGrouped(placing{e: e, round: round + 1}.pairs()).count()
	}
	return n
}
