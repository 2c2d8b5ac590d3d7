package plan

import (
	"cmp"
	"slices"
	"sort"
)

// balanced orders the pairs of a phase so that the first of them, however many, compare all documents about equally
// often. It computes the pair at any place, in memory that grows only with the number of items.
//
// Items take turns: each gives one pair, then each a second one, and so on, until those with fewer pairs have given all.
// Within an item, pairs come in passes around a circle of its documents, as in the first round of swiss pairing. A pass
// compares every document twice, so no document is ever more than two comparisons ahead of another. Where in a pass an
// item takes its next pair depends on the item: those with equally many pairs, which probably have the same candidates,
// go on around the circle where the one before left off.
type balanced struct {
	seed  uint64
	items []turns // those with the most pairs first
	spans []span
}

// turns are the pairs of an item.
type turns struct {
	first int // number of its first pair
	pairs int
	pass  int  // pairs in a pass
	docs  int  // documents, if every pair of them is compared; 0: pairs are in another order
	mixed bool // that order is pseudo-random
}

// span are the places at which equally many items take turns.
type span struct {
	first int // its first place
	turn  int // how many pairs each of the items has given before
	items int
}

// newBalanced returns nil for pairs that have an order of their own: those of a file, a sample, which is in
// pseudo-random order, and rounds of swiss pairing.
func newBalanced(of pairs, seed uint64) *balanced {
	b := &balanced{seed: seed}
	switch p := of.(type) {
	case among:
		return newBalanced(p.pairs, seed)
	case *allPairs:
		for _, item := range p.items {
			n := item.docs
			b.items = append(b.items, turns{first: item.firstPair, pairs: n * (n - 1) / 2, pass: n, docs: n})
		}
	case *against:
		for _, item := range p.items {
			b.items = append(b.items, turns{first: item.firstPair, pairs: len(item.baseline) * item.others, pass: item.others})
		}
	case *apart:
		for start, end := range items(p.docs) {
			after := p.total
			if end < len(p.docs) {
				after = p.before[end]
			}
			if n := after - p.before[start]; n > 0 {
				b.items = append(b.items, turns{first: p.before[start], pairs: n, pass: n, mixed: true})
			}
		}
	default:
		return nil
	}

	slices.SortStableFunc(b.items, func(x, y turns) int { return cmp.Compare(y.pairs, x.pairs) })
	place, turn := 0, 0
	for i, item := range slices.Backward(b.items) {
		if item.pairs > turn {
			b.spans = append(b.spans, span{first: place, turn: turn, items: i + 1})
			place, turn = place+(item.pairs-turn)*(i+1), item.pairs
		}
	}
	return b
}

// at returns the number of the pair at a place.
func (b *balanced) at(place int) int {
	s := b.spans[sort.Search(len(b.spans), func(k int) bool { return b.spans[k].first > place })-1]
	turn, i := s.turn+(place-s.first)/s.items, (place-s.first)%s.items
	item := b.items[i]

	// Items with equally many pairs are next to each other, and take their last turn in the same span.
	last := sort.Search(len(b.spans), func(k int) bool { return b.spans[k].items <= i })
	alike := 0 // before the first of them
	if last < len(b.spans) {
		alike = b.spans[last].items
	}
	return item.first + b.pair(item, item.nth(turn, i-alike, b.spans[last-1].items-alike))
}

// nth returns the pair that an item gives in a turn: its place in the passes. i is the item's place among n alike.
// Together, the items alike give neighbouring places of a pass, and in the next turn the places after these.
func (t turns) nth(turn, i, n int) int {
	pass := turn / t.pass
	length := min(t.pass, t.pairs-pass*t.pass) // only the last can be shorter
	return pass*t.pass + (i%length+turn%t.pass*coprime(n%length, length))%length
}

// coprime returns the number nearest to n that has no common divisor with m, so that steps of it reach every place of m.
func coprime(n, m int) int {
	for d := 0; ; d++ {
		for _, k := range [2]int{n + d, n - d} {
			if k > 0 && gcd(k, m) == 1 {
				return k
			}
		}
	}
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// pair returns the number, within its item, of the pair at a place of the item's passes.
func (b *balanced) pair(t turns, place int) int {
	switch {
	case t.mixed:
		return newPermutation(mix(b.seed+uint64(t.first)), t.pairs).at(place)
	case t.docs == 0:
		return place
	}
	if place < t.docs { // of the first pass, every second pair comes first: half a pass then compares all documents
		half := (t.docs + 1) / 2
		place = place%half*2 + place/half
	}
	from, to := group{docs: t.docs}.meet(place)
	seats := newPermutation(mix(b.seed), t.docs) // the same for items alike
	x, y := seats.at(from), seats.at(to)
	return tiledNumber(t.docs, min(x, y), max(x, y))
}
