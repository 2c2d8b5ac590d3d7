package plan

import (
	"cmp"
	"slices"
	"sort"

	"github.com/evalfleet/evalfleet/eval"
)

// apart enumerates every unordered pair of documents of different candidates within each item: item after item, and
// within an item row by row. Several documents of one candidate are samples, which are not compared with each other.
// Its memory grows with the number of documents.
type apart struct {
	docs   []eval.Document
	before []int // number of pairs whose first document is before each document
	end    []int // end of each document's item
	total  int
	// alike lists the positions of documents of one item and candidate, ascending, and group is the list of each document.
	alike [][]int
	group []int
}

// newApart enumerates pairs of different candidates. docs must be sorted by item.
func newApart(docs []eval.Document) (*apart, error) {
	p := &apart{docs: docs, before: make([]int, len(docs)), end: make([]int, len(docs)), group: make([]int, len(docs))}
	for start, end := range items(docs) {
		groups := map[string]int{}
		for i := start; i < end; i++ {
			of, ok := groups[docs[i].Candidate]
			if !ok {
				of = len(p.alike)
				groups[docs[i].Candidate] = of
				p.alike = append(p.alike, nil)
			}
			p.alike[of] = append(p.alike[of], i)
			p.group[i], p.end[i] = of, end
		}
		for i := start; i < end; i++ {
			p.before[i] = p.total
			if p.total += end - i - 1 - len(p.after(i)); p.total < 0 {
				return nil, errTooManyPairs
			}
		}
	}
	return p, nil
}

// after returns the positions after a document of those of its own candidate.
func (p *apart) after(i int) []int {
	alike := p.alike[p.group[i]]
	at, _ := slices.BinarySearch(alike, i)
	return alike[at+1:]
}

func (p *apart) count() int { return p.total }

func (p *apart) at(i int) (a, b int) {
	a = sort.Search(len(p.before), func(k int) bool { return p.before[k] > i }) - 1
	b = a + 1 + i - p.before[a]
	own := p.after(a) // the number b skips these
	skip := sort.Search(len(own), func(k int) bool { return own[k]-k > b })
	return a, b + skip
}

// spread returns up to n positions of an item's documents that give the most pairs of different candidates: one of
// each candidate, then a second of each, and so on.
func spread(docs []eval.Document, start, end, n int) []int {
	type turn struct{ nth, position int }
	turns := make([]turn, 0, end-start)
	seen := map[string]int{}
	for i := start; i < end; i++ {
		turns = append(turns, turn{seen[docs[i].Candidate], i})
		seen[docs[i].Candidate]++
	}
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Or(cmp.Compare(a.nth, b.nth), cmp.Compare(a.position, b.position)) })
	chosen := make([]int, 0, n)
	for _, t := range turns[:n] {
		chosen = append(chosen, t.position)
	}
	return chosen
}
