package plan

import (
	"math"

	"github.com/evalfleet/evalfleet/eval"
)

// comparisons are the cases of a pairwise phase: each pair in the orders asked.
type comparisons struct {
	pairs  pairs
	orders int
	swap   func(a, b int) bool // decides a single order; nil: as enumerated
}

// pairs enumerates pairs of documents, each once.
type pairs interface {
	count() int
	at(i int) (a, b int)
}

func newComparisons(e *eval.Evaluation) (comparisons, error) {
	id := e.ID()
	chosen, err := choosePairs(e, id)
	if err != nil {
		return comparisons{}, err
	}
	c := comparisons{pairs: chosen, orders: 1}
	switch e.Pairwise.Order {
	case eval.OrderBoth:
		c.orders = 2
		if _, ok := product(chosen.count(), c.orders); !ok {
			return comparisons{}, errTooManyPairs
		}
	case eval.OrderRandom:
		c.swap = coin(newSeed(id, "order"))
	case eval.OrderAsListed:
	}
	return c, nil
}

func choosePairs(e *eval.Evaluation, id eval.ID) (pairs, error) {
	switch e.Pairwise.Pairs.Mode {
	case eval.PairsListed:
		return listed(e.Pairwise.Pairs.Listed), nil
	case eval.PairsBaseline:
		return newAgainst(e.Documents, e.Pairwise.Pairs.Baseline)
	}
	all, err := newAllPairs(e.Documents)
	if err != nil || e.Pairwise.Pairs.Mode == eval.PairsAll {
		return all, err
	}
	wanted := int(math.Round(e.Pairwise.Pairs.Sample * float64(all.count())))
	return sampled{
		all:   all,
		order: newPermutation(newSeed(id, "sample"), all.count()),
		size:  min(max(wanted, 1), all.count()),
	}, nil
}

func (c comparisons) count() int { return c.pairs.count() * c.orders }

// at puts a pair's two orders next to each other.
func (c comparisons) at(i int) (first, second int) {
	a, b := c.pairs.at(i / c.orders)
	if i%c.orders == 1 || c.swap != nil && c.swap(a, b) {
		a, b = b, a
	}
	return a, b
}

// listed are the pairs of a file, in its order.
type listed [][2]int

func (l listed) count() int { return len(l) }

func (l listed) at(i int) (a, b int) { return l[i][0], l[i][1] }

// sampled are the first pairs of a pseudo-random permutation of all, so that
// also the beginning of a sample is a fair one.
type sampled struct {
	all   *allPairs
	order permutation
	size  int
}

func (s sampled) count() int { return s.size }

func (s sampled) at(i int) (a, b int) { return s.all.at(s.order.at(i)) }
