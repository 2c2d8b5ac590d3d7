package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
)

// Basis says what determines the documents that a phase compares.
type Basis int

// The bases of a phase.
const (
	Fixed      Basis = iota // the evaluation alone
	ByScores                // the scores of its single phase
	ByVerdicts              // the verdicts of the rounds before
	ByDoubts                // the verdicts of the first judges; see Escalated
)

// BasisOf returns what determines the documents that e's phase compares. A phase that is not Fixed can be planned
// before the choice is made. Its maximum number of runs is known then, and Choose determines the pairs later.
func BasisOf(e *eval.Evaluation, phase int) Basis {
	phases := Phases(e)
	first := slices.Index(phases, eval.KindPairwise)
	switch {
	case phase < 0 || phase >= len(phases) || phases[phase] != eval.KindPairwise:
		return Fixed
	case Escalated(e, phase):
		return ByDoubts
	case phase > first:
		return ByVerdicts
	case e.Pairwise.TopN > 0:
		return ByScores
	}
	return Fixed
}

// Choice holds what a phase that is not Fixed compares, as positions of documents or numbers of pairs. Only the fields of
// one Basis are set.
type Choice struct {
	// Documents, for ByScores, are the positions of the documents that are compared with each other, ascending.
	Documents []int `json:"documents,omitempty"`
	// Pairs, for ByVerdicts, are lists of positions, ascending. The first document of each list is compared with all
	// others in it.
	Pairs [][]int `json:"pairs,omitempty"`
	// Contested and Sampled, for ByDoubts, are the numbers of pairs of the phase before, ascending. Both together are
	// compared.
	Contested []int `json:"contested,omitempty"`
	Sampled   []int `json:"sampled,omitempty"`
}

// Found holds the results of earlier phases for each document, by its position. Choose needs only the field that the
// phase's Basis names.
type Found struct {
	Scores    []float64 // the mean of its single scores; NaN: none
	Abilities []float64 // of the document's candidate, from all verdicts so far
	// Placed are the newcomers of a grown evaluation whose rank is known already.
	Placed []string
	// Contested and Agreed are the numbers of the pairs about which the first judges are in doubt, and of all others that
	// judges were asked about; both ascending.
	Contested, Agreed []int
}

// Choose determines what e's phase compares. choices are those of the earlier phases, by their number; entries of
// Fixed phases are ignored. The same input gives the same choice: equal documents keep their order, and those without
// a score come last. Choose returns an error for a Fixed phase.
func Choose(e *eval.Evaluation, phase int, choices []*Choice, found Found) (*Choice, error) {
	switch BasisOf(e, phase) {
	case ByScores:
		if len(found.Scores) != len(e.Documents) {
			return nil, fmt.Errorf("choose phase %d: %d scores of %d documents", phase, len(found.Scores), len(e.Documents))
		}
		return &Choice{Documents: best(e, found.Scores)}, nil
	case ByVerdicts:
		if len(found.Abilities) != len(e.Documents) {
			return nil, fmt.Errorf("choose phase %d: %d strengths of %d documents", phase, len(found.Abilities), len(e.Documents))
		}
		if PlacingRound(e, phase) > 0 {
			return nextPlacing(e, phase, choices, found)
		}
		return nextRound(e, phase, choices, found.Abilities)
	case ByDoubts:
		return escalated(e, found)
	}
	return nil, fmt.Errorf("choose phase %d: it has nothing to choose", phase)
}

// best returns the positions of the TopN documents with the highest scores of each item, ascending.
func best(e *eval.Evaluation, scores []float64) []int {
	var chosen []int
	for start, end := range items(e.Documents) {
		ranked := descending(start, end, scores)
		chosen = append(chosen, ranked[:min(e.Pairwise.TopN, len(ranked))]...)
	}
	slices.Sort(chosen)
	return chosen
}

// descending returns the positions in [start, end) by value, highest first and NaN last.
func descending(start, end int, values []float64) []int {
	order := make([]int, end-start)
	for i := range order {
		order[i] = start + i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[b], values[a]) }) // NaN is less than any
	return order
}

// placeholders returns placeholder documents for a choice ByScores that has not been made. They are as many documents of
// each item as will be compared. With a baseline, the split between its documents and others gives the maximum number
// of pairs; where candidates are kept apart, one document of each, then a second of each, and so on, do.
func placeholders(e *eval.Evaluation) []int {
	var chosen []int
	for start, end := range items(e.Documents) {
		n := min(e.Pairwise.TopN, end-start)
		if e.Pairwise.Pairs.Mode != eval.PairsBaseline {
			if e.Pairwise.Apart {
				chosen = append(chosen, spread(e.Documents, start, end, n)...)
				continue
			}
			for i := range n {
				chosen = append(chosen, start+i)
			}
			continue
		}
		var own, others []int
		for i := start; i < end; i++ {
			if e.Documents[i].Candidate == e.Pairwise.Pairs.Baseline {
				own = append(own, i)
			} else {
				others = append(others, i)
			}
		}
		most := 0 // how many of own give the most pairs
		for k := range min(n, len(own)) + 1 {
			if k*min(n-k, len(others)) > most*min(n-most, len(others)) {
				most = k
			}
		}
		chosen = append(append(chosen, own[:most]...), others[:min(n-most, len(others))]...)
	}

	slices.Sort(chosen)
	return chosen
}

// among enumerates pairs of selected documents; the embedded pairs number these from 0.
type among struct {
	pairs
	documents []int
}

func (s among) at(i int) (a, b int) {
	a, b = s.pairs.at(i)
	return s.documents[a], s.documents[b]
}

// listedAmong returns the listed pairs of chosen documents. If they have not been chosen, it returns the first pairs
// of each item, as many as can be chosen.
func listedAmong(e *eval.Evaluation, choice *Choice) listed {
	var kept listed
	left := make([]int, len(e.Items))
	if choice == nil {
		for start, end := range items(e.Documents) {
			n := min(e.Pairwise.TopN, end-start)
			left[e.Documents[start].Item] = n * (n - 1) / 2
			if e.Pairwise.Order == eval.OrderAsListed { // the reverse of a pair may be listed too
				left[e.Documents[start].Item] *= 2
			}
		}
	}

	for _, pair := range e.Pairwise.Pairs.Listed {
		item := e.Documents[pair[0]].Item
		if choice == nil {
			if left[item]--; left[item] < 0 {
				continue
			}
		} else if !choice.has(pair[0]) || !choice.has(pair[1]) {
			continue
		}
		kept = append(kept, pair)
	}

	return kept
}

func (c *Choice) has(document int) bool {
	_, found := slices.BinarySearch(c.Documents, document)
	return found
}

// some returns the documents at the given positions.
func some(docs []eval.Document, positions []int) []eval.Document {
	chosen := make([]eval.Document, len(positions))
	for i, position := range positions {
		chosen[i] = docs[position]
	}
	return chosen
}

// grouped enumerates the pairs of a choice ByVerdicts.
type grouped struct {
	lists  [][]int
	before []int // number of pairs in the lists before each list
	total  int
}

func newGrouped(lists [][]int) grouped {
	g := grouped{lists: lists, before: make([]int, len(lists))}
	for i, list := range lists {
		g.before[i] = g.total
		g.total += len(list) - 1
	}
	return g
}

func (g grouped) count() int { return g.total }

func (g grouped) at(i int) (a, b int) {
	k, found := slices.BinarySearch(g.before, i)
	if !found {
		k--
	}
	return g.lists[k][0], g.lists[k][i-g.before[k]+1]
}

// validateChoice reports the first reason why a choice does not fit e's phase.
func validateChoice(e *eval.Evaluation, basis Basis, c *Choice) error {
	if c == nil {
		return nil
	}
	switch {
	case basis == Fixed:
		return errors.New("the evaluation already determines what it compares")
	case basis != ByScores && len(c.Documents) > 0 || basis != ByVerdicts && len(c.Pairs) > 0 ||
		basis != ByDoubts && len(c.Contested)+len(c.Sampled) > 0:
		return errors.New("the choice belongs to another phase")
	}
	for i, d := range c.Documents {
		if d < 0 || d >= len(e.Documents) || i > 0 && d <= c.Documents[i-1] {
			return fmt.Errorf("document %d of %d is chosen out of turn", d, len(e.Documents))
		}
	}
	for _, list := range c.Pairs {
		if len(list) < 2 || list[0] < 0 || list[len(list)-1] >= len(e.Documents) || !slices.IsSorted(list) ||
			e.Documents[list[0]].Item != e.Documents[list[len(list)-1]].Item {
			return fmt.Errorf("the chosen pairs %v are not of one item's documents", list)
		}
	}
	return nil
}

// validateTopN reports why the best n documents cannot be chosen.
func validateTopN(e *eval.Evaluation) error {
	switch n := e.Pairwise.TopN; {
	case n == 0:
		return nil
	case n < 2 || n > math.MaxInt32:
		return fmt.Errorf("top_n is %d: want at least 2 documents to compare, or 0 for all", n)
	case e.Single == nil:
		return errors.New("top_n takes the best documents by single score, and there is no single phase")
	}
	return nil
}
