package plan

import (
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/evalfleet/evalfleet/eval"
)

// Swiss pairing compares a share of all pairs, in rounds. The first round connects all documents of an item. Each
// later round compares documents that are neighbours in the current ranking and have not been compared. There are few
// rounds, because the fleet must finish each one before the next can start.
const (
	laterRounds = 3
	firstShare  = 0.5
)

// SwissShare is the share of all pairs that swiss pairing compares by default. It ranks nearly as well as all pairs.
const SwissShare = 0.4

// maxSwiss is the maximum number of pairs, so that shares can be computed exactly.
const maxSwiss = math.MaxInt32

// rounds holds the numbers of pairs of swiss pairing, which are known before anything runs.
type rounds struct {
	groups []group
	first  int // pairs of the first round
	later  int // rounds after the first
}

// group is an item with at least two documents.
type group struct {
	firstPair int // number of its first pair in the first round
	firstDoc  int // position of its first document
	docs      int
	first     int // pairs in the first round
	rest      int // pairs in all later rounds together
}

// newRounds distributes pairs over items and rounds; docs must be sorted by item. The share holds for all items
// together. Every item gets enough pairs to connect its documents. Items of up to four documents may therefore exceed
// their share, and larger ones get less.
func newRounds(docs []eval.Document, share float64) (*rounds, error) {
	all, err := newAllPairs(docs)
	if err != nil {
		return nil, err
	}
	if all.total > maxSwiss {
		return nil, errTooManyPairs
	}
	r := &rounds{}
	least, lacking := 0, uint64(0) // summed over items: pairs that connect it; missing to its share
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
		if g.rest > 0 { // a round compares every document
			r.later = max(r.later, min(max(g.rest/((g.docs+1)/2), 1), laterRounds))
		}
		r.first += g.first
		r.groups = append(r.groups, g)
	}

	return r, nil
}

// portion returns whole·part/of, rounded down.
func portion(whole, part, of uint64) uint64 {
	high, low := bits.Mul64(whole, part)
	quotient, _ := bits.Div64(high, low, of)
	return quotient
}

// in returns the number of pairs of an item in a later round; these are numbered from 1.
func (r *rounds) in(g group, round int) int {
	return g.rest*round/r.later - g.rest*(round-1)/r.later
}

// pairsIn returns the number of pairs in a later round; these are numbered from 1.
func (r *rounds) pairsIn(round int) int {
	n := 0
	for _, g := range r.groups {
		n += r.in(g, round)
	}
	return n
}

// swissPairs enumerates the pairs of a round. For a later round that has not been chosen yet, they are placeholders.
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

// ring enumerates the pairs of the first round, in memory that grows only with the number of items. The documents of
// an item form a circle, in a pseudo-random order. Each is compared with the next one, then with one further away,
// and so on.
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

// circle returns the order of an item's documents in their circle.
func (r ring) circle(g group) permutation {
	return newPermutation(mix(r.seed+uint64(g.firstDoc)), g.docs)
}

// meet returns the positions in the circle of the documents of the item's k-th pair.
func (g group) meet(k int) (from, to int) {
	from = k % g.docs
	return from, (from + g.step(k/g.docs)) % g.docs
}

// step returns how far apart in the circle the documents of a pair are, in the n-th pass around it. The first
// distance is 1, which connects all documents. Pseudo-random distances follow, so that any two documents are
// connected by few comparisons. Half the circle, if it is a whole number, comes last, because it gives only one pair
// for two documents.
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

// nextRound pairs, in each item, documents that are close in ability and have not been compared.
func nextRound(e *eval.Evaluation, phase int, choices []*Choice, abilities []float64) (*Choice, error) {
	first := slices.Index(Phases(e), eval.KindPairwise)
	documents := e.Documents
	var positions []int // of the documents to compare; nil: all
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

// meeting records which documents of an item have been compared.
type meeting struct {
	docs int
	bits []uint64 // the bit of a pair a < b is a·docs + b
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

// neighbours selects up to n pairs of documents that have not been compared. It takes first those next to each other
// in the ranking, then those with one document between them, and so on. It returns, for each document, the higher
// numbers of its pairs.
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
