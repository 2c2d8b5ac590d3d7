package plan

import (
	"errors"
	"iter"
	"sort"

	"github.com/evalfleet/evalfleet/eval"
)

// tile is the side of the square of documents within which pairs are enumerated before the next square begins. 256
// consecutive pairs need only 32 texts; row by row of a large item they would need 257. It is part of the meaning of
// an index.
const tile = 16

var errTooManyPairs = errors.New("more pairs than can be numbered")

// allPairs enumerates every unordered pair of documents within each item, item after item. Its memory grows only with
// the number of items.
type allPairs struct {
	items []block
	total int
}

// block is an item with at least two documents.
type block struct {
	firstPair int // number of its first pair
	firstDoc  int // position of its first document
	docs      int
}

// newAllPairs enumerates all pairs of documents, which must be sorted by item.
func newAllPairs(docs []eval.Document) (*allPairs, error) {
	p := &allPairs{}
	for start, end := range items(docs) {
		if n := end - start; n > 1 {
			p.items = append(p.items, block{firstPair: p.total, firstDoc: start, docs: n})
			twice, ok := product(n, n-1)
			if p.total += twice / 2; !ok || p.total < 0 {
				return nil, errTooManyPairs
			}
		}
	}
	return p, nil
}

// items yields the first position of each item's documents and the position after the last. The documents must be
// sorted by item.
func items(docs []eval.Document) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		for start := 0; start < len(docs); {
			end := start + 1
			for end < len(docs) && docs[end].Item == docs[start].Item {
				end++
			}
			if !yield(start, end) {
				return
			}
			start = end
		}
	}
}

func (p *allPairs) count() int { return p.total }

func (p *allPairs) at(i int) (a, b int) {
	k := sort.Search(len(p.items), func(k int) bool { return p.items[k].firstPair > i }) - 1
	item := p.items[k]
	a, b = tiledPair(item.docs, i-item.firstPair)
	return item.firstDoc + a, item.firstDoc + b
}

// tiledPair returns the k-th of the n(n−1)/2 pairs a < b of n documents. The upper triangle of the square of
// documents is cut into bands of `tile` rows. Each band consists of a triangle at the diagonal and the tiles to the
// right of it. A tile is enumerated row by row.
func tiledPair(n, k int) (a, b int) {
	band := sort.Search((n+tile-1)/tile, func(band int) bool { return pairsAbove(n, band*tile) > k }) - 1
	top := band * tile
	k -= pairsAbove(n, top)
	rows := min(tile, n-top)
	triangle := rows * (rows - 1) / 2
	if k < triangle {
		for width := rows - 1; k >= width; width-- {
			k -= width
			top++
		}
		return top, top + 1 + k
	}
	// Only the last tile of a band can be narrower. Only the last band can be lower, and it has no tiles beside its
	// triangle.
	k -= triangle
	left := top + tile + k/(tile*tile)*tile
	k %= tile * tile
	columns := min(tile, n-left)
	return top + k/columns, left + k%columns
}

// tiledNumber returns the k for which tiledPair returns a and b.
func tiledNumber(n, a, b int) int {
	top := a / tile * tile
	k := pairsAbove(n, top)
	rows := min(tile, n-top)
	if row := a - top; b < top+rows { // in the triangle
		return k + row*(2*rows-row-1)/2 + b - a - 1
	}
	k += rows * (rows - 1) / 2
	left := b / tile * tile
	return k + (left-top-tile)*tile + (a-top)*min(tile, n-left) + b - left
}

// pairsAbove counts the pairs a < b of n documents with a < row.
func pairsAbove(n, row int) int {
	return row * (2*n - row - 1) / 2
}
