package plan

import (
	"math"

	"github.com/evalfleet/evalfleet/eval"
)

// comparisons enumerates the cases of a pairwise phase: each pair in the requested orders.
type comparisons struct {
	pairs  pairs
	orders int
	swap   func(a, b int) bool // reports whether to swap a pair; nil: never
	seed   uint64              // of the balanced order
}

// pairs enumerates pairs of documents, each once.
type pairs interface {
	count() int
	at(i int) (a, b int)
}

func newComparisons(e *eval.Evaluation, phase int, choice *Choice) (comparisons, error) {
	id := e.ID()
	chosen, err := choosePairs(e, id, phase, choice)
	if err != nil {
		return comparisons{}, err
	}

	c := comparisons{pairs: chosen, orders: 1, seed: newSeed(id, "balanced")}
	switch e.Pairwise.Order {
	case eval.OrderBoth:
		c.orders = 2
		if _, ok := product(chosen.count(), c.orders); !ok {
			return comparisons{}, errTooManyPairs
		}
	case eval.OrderRandom:
		c.swap = coin(newSeed(id, "order"))
	case eval.OrderAsListed:
		if PlacingRound(e, phase) > 0 { // these pairs are not listed
			c.swap = coin(newSeed(id, "order"))
		}
	}
	if Recorded(e, phase) { // the pairs are listed as they were shown
		c.swap = nil
	}
	return c, nil
}

// pairwisePhases returns how many phases compare pairs.
func pairwisePhases(e *eval.Evaluation) int {
	switch e.Pairwise.Pairs.Mode {
	case eval.PairsGrown:
		return 1 + Placing(e.Pairwise.Pairs.Opponents)
	case eval.PairsSwiss:
	default:
		if e.Strong() >= 0 {
			return 2
		}
		return 1
	}
	docs := e.Documents
	if e.Pairwise.TopN > 0 {
		docs = some(docs, placeholders(e))
	}
	r, err := newRounds(docs, e.Pairwise.Pairs.Share)
	if err != nil { // New reports it
		return 1
	}
	return 1 + r.later
}

func choosePairs(e *eval.Evaluation, id eval.ID, phase int, choice *Choice) (pairs, error) {
	if choice != nil && BasisOf(e, phase) == ByVerdicts {
		return newGrouped(choice.Pairs), nil
	}
	if Escalated(e, phase) {
		return newDoubted(e, id, choice)
	}
	if e.Pairwise.TopN == 0 {
		return pairsOf(e, e.Documents, id, phase)
	}
	if e.Pairwise.Pairs.Mode == eval.PairsListed {
		return listedAmong(e, choice), nil
	}
	documents := placeholders(e)
	if choice != nil {
		documents = choice.Documents
	}
	of, err := pairsOf(e, some(e.Documents, documents), id, phase)
	return among{of, documents}, err
}

// pairsOf enumerates the pairs to compare among docs, which are the evaluation's documents or some of them.
func pairsOf(e *eval.Evaluation, docs []eval.Document, id eval.ID, phase int) (pairs, error) {
	switch e.Pairwise.Pairs.Mode {
	case eval.PairsListed:
		return listed(e.Pairwise.Pairs.Listed), nil
	case eval.PairsGrown:
		if PlacingRound(e, phase) > 0 {
			return placingPairs(e, phase), nil
		}
		return listed(e.Pairwise.Pairs.Listed), nil
	case eval.PairsBaseline:
		return newAgainst(docs, e.Pairwise.Pairs.Baseline)
	case eval.PairsSwiss:
		return swissPairs(e, docs, id, phase)
	}
	all, err := pairsWithin(docs, e.Pairwise.Apart)
	if err != nil || e.Pairwise.Pairs.Mode == eval.PairsAll {
		return all, err
	}
	wanted := int(math.Round(e.Pairwise.Pairs.Sample * float64(all.count())))
	return newSampled(id, all, max(wanted, 1)), nil
}

// pairsWithin enumerates all pairs of each item; of different candidates only if they are kept apart.
func pairsWithin(docs []eval.Document, keptApart bool) (pairs, error) {
	if keptApart {
		return newApart(docs)
	}
	return newAllPairs(docs)
}

func (c comparisons) count() int { return c.pairs.count() * c.orders }

// at returns the documents of the i-th case. The two orders of a pair are next to each other.
func (c comparisons) at(i int) (first, second int) {
	a, b := c.pairs.at(i / c.orders)
	if i%c.orders == 1 || c.swap != nil && c.swap(a, b) {
		a, b = b, a
	}
	return a, b
}

// Prefixes reports whether the first pairs of the evaluation are a fair sample of all: any pair is equally likely to
// be among them.
func Prefixes(e *eval.Evaluation) bool {
	return e.Pairwise != nil && e.Pairwise.Pairs.Mode == eval.PairsSample && e.Pairwise.TopN == 0 && e.Escalate == nil
}

// RunsOfPair returns how many runs each pair of e has in a phase that compares pairs. They are consecutive, so that run
// i of the phase is about pair i/RunsOfPair. If verdicts were given elsewhere, pairs may have fewer.
func RunsOfPair(e *eval.Evaluation, phase int) int {
	if e.Given != nil {
		return max(1, e.Given.PairRuns)
	}
	orders := 1
	if e.Pairwise.Order == eval.OrderBoth {
		orders = 2
	}
	_, judges := JudgesIn(e, phase)
	return orders * e.Pairwise.Trials * judges
}

// PairSizes returns RunsOfPair of every phase, and 1 for phases that compare no pairs.
func PairSizes(e *eval.Evaluation) []int {
	phases := Phases(e)
	sizes := make([]int, len(phases))
	for phase, kind := range phases {
		if sizes[phase] = 1; kind == eval.KindPairwise {
			sizes[phase] = max(1, RunsOfPair(e, phase))
		}
	}
	return sizes
}

// listed enumerates the pairs of a file, in its order.
type listed [][2]int

func (l listed) count() int { return len(l) }

func (l listed) at(i int) (a, b int) { return l[i][0], l[i][1] }

// sampled enumerates the first pairs of a pseudo-random permutation of all pairs, so that the beginning of a sample
// is a fair sample too.
type sampled struct {
	all   pairs
	order permutation
	size  int
}

func newSampled(id eval.ID, all pairs, size int) sampled {
	return sampled{
		all:   all,
		order: newPermutation(newSeed(id, "sample"), all.count()),
		size:  min(size, all.count()),
	}
}

func (s sampled) count() int { return s.size }

func (s sampled) at(i int) (a, b int) { return s.all.at(s.order.at(i)) }
