package plan

import (
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/evalfleet/evalfleet/eval"
)

// Swiss pairing compares a share of all pairs, in rounds: the first connects the
// documents of every item, and each later one compares documents that are neighbours
// in the ranking by then and have not met. Between two rounds the fleet waits for the
// last run of the first of them, so there are few.
const (
	laterRounds = 3
	firstShare  = 0.5
)

// maxSwiss is how many pairs there may be in all: shares are computed exactly.
const maxSwiss = math.MaxInt32

// rounds are the numbers of pairs of swiss pairing: known before anything runs.
type rounds struct {
	groups []group
	first  int // pairs of the first round
	later  int // rounds after the first
}

// group is an item of at least two documents.
type group struct {
	firstPair int // number of its first pair in the first round
	firstDoc  int // position of its first document
	docs      int
	first     int // pairs in the first round
	rest      int // pairs in all later rounds together
}

// newRounds deals the pairs out, of documents sorted by item. The share holds for all
// items together. No item has fewer than connect its documents, so items of
// up to four documents may have more than their share; larger ones then have less.
func newRounds(docs []eval.Document, share float64) (*rounds, error) {
	all, err := newAllPairs(docs)
	if err != nil {
		return nil, err
	}
	if all.total > maxSwiss {
		return nil, errTooManyPairs
	}
	r := &rounds{}
	least, lacking := 0, uint64(0) // by all items, of what connects them and of their shares
	wanted := int(math.Round(share * float64(all.total)))
	lacks := func(item block) uint64 {
		n := item.docs * (item.docs - 1) / 2
		return uint64(max(wanted*n-(item.docs-1)*all.total, 0))
	}
	for _, item := range all.items {
		least += item.docs - 1
		lacking += lacks(item)
	}
	more, dealt := uint64(max(wanted-least, 0)), uint64(0)
	for _, item := range all.items {
		g := group{firstPair: r.first, firstDoc: item.firstDoc, docs: item.docs}
		pairs := item.docs - 1
		if more > 0 {
			next := dealt + lacks(item)
			pairs += int(portion(more, next, lacking) - portion(more, dealt, lacking))
			dealt = next
		}
		g.first = max(item.docs-1, int(math.Round(firstShare*float64(pairs))))
		g.rest = pairs - g.first
		if g.rest > 0 { // a round gives every document a comparison
			r.later = max(r.later, min(max(g.rest/((g.docs+1)/2), 1), laterRounds))
		}
		r.first += g.first
		r.groups = append(r.groups, g)
	}
	return r, nil
}

// portion is whole·part/of, rounded down.
func portion(whole, part, of uint64) uint64 {
	high, low := bits.Mul64(whole, part)
	quotient, _ := bits.Div64(high, low, of)
	return quotient
}

// in is the number of pairs of an item in a later round, from 1.
func (r *rounds) in(g group, round int) int {
	return g.rest*round/r.later - g.rest*(round-1)/r.later
}

// pairsIn is the number of pairs of a later round, from 1.
func (r *rounds) pairsIn(round int) int {
	n := 0
	for _, g := range r.groups {
		n += r.in(g, round)
	}
	return n
}

// swissPairs are the pairs of a round. Those of a later one that is not chosen yet are
// made up.
func swissPairs(e *eval.Evaluation, docs []eval.Document, id eval.ID, phase int) (pairs, error) {
	r, err := newRounds(docs, e.Pairwise.Pairs.Share)
	if err != nil {
		return nil, err
	}
	round := phase - slices.Index(Phases(e), eval.KindPairwise)
	if round == 0 {
		return ring{r, newSeed(id, "swiss")}, nil
	}
	all, err := newAllPairs(docs)
	return newSampled(id, all, r.pairsIn(round)), err
}

// ring enumerates the pairs of the first round, in memory that grows with items only:
// the documents of an item form a circle, in a pseudo-random order, and each is
// compared with the next, then with one further on, and so forth.
type ring struct {
	*rounds
	seed uint64
}

func (r ring) count() int { return r.first }

func (r ring) at(i int) (a, b int) {
	g := r.groups[sort.Search(len(r.groups), func(k int) bool { return r.groups[k].firstPair > i })-1]
	from, to := g.meet(i - g.firstPair)
	circle := r.circle(g)
	a, b = circle.at(from), circle.at(to)
	return g.firstDoc + min(a, b), g.firstDoc + max(a, b)
}

// circle is the order of an item's documents.
func (r ring) circle(g group) permutation {
	return newPermutation(mix(r.seed+uint64(g.firstDoc)), g.docs)
}

// meet are the places in the circle of the item's k-th pair.
func (g group) meet(k int) (from, to int) {
	from = k % g.docs
	return from, (from + g.step(k/g.docs)) % g.docs
}

// step is how far apart in the circle those are who meet in the n-th time around: 1
// first, which connects them all; then pseudo-random ones, so that few comparisons lie
// between any two; half the circle, where that is a whole number, makes a pair of
// every second document only and is last.
func (g group) step(n int) int {
	steps := (g.docs - 1) / 2
	switch {
	case n == 0:
		return 1
	case n >= steps:
		return g.docs / 2
	}
	return 2 + newPermutation(uint64(g.docs), steps-1).at(n-1)
}

// nextRound pairs, in each item, documents that are close in ability and have not met.
func nextRound(e *eval.Evaluation, phase int, choices []*Choice, abilities []float64) (*Choice, error) {
	first := slices.Index(Phases(e), eval.KindPairwise)
	documents := e.Documents
	var positions []int // of those that are compared at all; nil: all
	if e.Pairwise.TopN > 0 {
		positions = choices[first].Documents
		documents = some(documents, positions)
	}
	r, err := newRounds(documents, e.Pairwise.Pairs.Share)
	if err != nil {
		return nil, err
	}
	partners := map[int][][]int{} // lists of earlier rounds, by their first document
	for _, choice := range choices[first+1 : phase] {
		for _, list := range choice.Pairs {
			partners[list[0]] = append(partners[list[0]], list[1:])
		}
	}
	place := func(i int) int {
		if positions != nil {
			return positions[i]
		}
		return i
	}
	begin := ring{r, newSeed(e.ID(), "swiss")}
	chosen := &Choice{Pairs: [][]int{}}
	for _, g := range r.groups {
		m := newMeeting(g.docs)
		circle, standing := begin.circle(g), make([]int, g.docs)
		for i := range standing {
			standing[i] = circle.at(i)
		}
		for k := range g.first {
			from, to := g.meet(k)
			m.meet(standing[from], standing[to])
		}
		local := make(map[int]int, g.docs)
		values := make([]float64, g.docs)
		for i := range g.docs {
			local[place(g.firstDoc+i)] = i
			values[i] = abilities[place(g.firstDoc+i)]
		}
		for i := range g.docs {
			for _, list := range partners[place(g.firstDoc+i)] {
				for _, other := range list {
					m.meet(i, local[other])
				}
			}
		}
		lists := m.neighbours(descending(0, g.docs, values), r.in(g, phase-first))
		for i, others := range lists {
			if len(others) == 0 {
				continue
			}
			list := []int{place(g.firstDoc + i)}
			slices.Sort(others)
			for _, other := range others {
				list = append(list, place(g.firstDoc+other))
			}
			chosen.Pairs = append(chosen.Pairs, list)
		}
	}
	return chosen, nil
}

// meeting knows who of an item has met.
type meeting struct {
	docs int
	bits []uint64 // of a pair a < b: a·docs + b
}

func newMeeting(docs int) *meeting {
	return &meeting{docs: docs, bits: make([]uint64, (docs*docs+63)/64)}
}

func (m *meeting) meet(a, b int) {
	k := min(a, b)*m.docs + max(a, b)
	m.bits[k/64] |= 1 << (k % 64)
}

func (m *meeting) met(a, b int) bool {
	k := min(a, b)*m.docs + max(a, b)
	return m.bits[k/64]>>(k%64)&1 == 1
}

// neighbours pairs documents that have not met, n pairs in all: first all that are next
// to each other in the ranking, then those with one between them, and so on. It
// returns, by document, the later ones that it meets.
func (m *meeting) neighbours(ranking []int, n int) [][]int {
	lists := make([][]int, m.docs)
	for apart := 1; n > 0 && apart < m.docs; apart++ {
		for i := 0; n > 0 && i+apart < m.docs; i++ {
			a, b := ranking[i], ranking[i+apart]
			if m.met(a, b) {
				continue
			}
			lists[min(a, b)] = append(lists[min(a, b)], max(a, b))
			n--
		}
	}
	return lists
}
