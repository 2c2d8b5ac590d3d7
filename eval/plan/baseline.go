package plan

import (
	"sort"

	"github.com/evalfleet/evalfleet/eval"
)

// against enumerates the pairs of one candidate's documents with those of the others in the same item, the
// candidate's first. It goes item by item, and within an item by the candidate's documents. Its memory grows with the
// number of items and of the candidate's documents.
type against struct {
	items []field
	total int
}

// field is an item with documents of the candidate and of others.
type field struct {
	firstPair int   // number of its first pair
	firstDoc  int   // position of its first document
	others    int   // documents of others
	baseline  []int // positions of the candidate's documents, ascending
}

// newAgainst enumerates pairs with a candidate's documents. docs must be sorted by item.
func newAgainst(docs []eval.Document, candidate string) (*against, error) {
	p := &against{}
	for start, end := range items(docs) {
		f := field{firstPair: p.total, firstDoc: start}
		for i := start; i < end; i++ {
			if docs[i].Candidate == candidate {
				f.baseline = append(f.baseline, i)
			}
		}
		f.others = end - start - len(f.baseline)
		pairs, ok := product(len(f.baseline), f.others)
		if p.total += pairs; !ok || p.total < 0 {
			return nil, errTooManyPairs
		}
		if pairs > 0 {
			p.items = append(p.items, f)
		}
	}
	return p, nil
}

func (p *against) count() int { return p.total }

func (p *against) at(i int) (a, b int) {
	f := p.items[sort.Search(len(p.items), func(k int) bool { return p.items[k].firstPair > i })-1]
	i -= f.firstPair
	a, b = f.baseline[i/f.others], f.firstDoc+i%f.others
	for _, own := range f.baseline { // the number b skips the candidate's documents
		if own <= b {
			b++
		}
	}
	return a, b
}
