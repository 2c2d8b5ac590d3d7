package config

import (
	"maps"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// maxPairs bounds the size of a file of pairs.
const maxPairs = 512 << 20

// pairColumns are the columns that a file of pairs must have. Others are ignored, so that a file of
// votes can be used too.
var pairColumns = []string{"item", "candidate_a", "candidate_b"}

// pairList reads one file of pairs.
type pairList struct {
	*table
	set   documentSet
	order eval.Order
	seen  map[[2]int]int // line of each pair
	pairs [][2]int
}

func (s *draft) listedPairs(y *yamlFile, v value, set documentSet, order eval.Order) [][2]int {
	path, ok := s.pathOf(y, v)
	if !ok {
		return nil
	}
	text, ok := s.readText(path, maxPairs)
	if !ok {
		return nil
	}
	before := len(s.problems)
	list := pairList{table: s.newTable(path, text, columns{need: pairColumns, unnamed: true}), set: set, order: order, seen: map[[2]int]int{}}
	list.each(list.addRow)
	if len(s.problems) == before && len(list.pairs) == 0 {
		s.refuse(place{file: path}, "", "no pairs are listed")
	}
	return list.pairs
}

// baseline reads the candidate that the others are compared with.
func (set documentSet) baseline(y *yamlFile, v value) string {
	name := y.text(v)
	if name == "" || len(set.byItem) == 0 {
		return name
	}
	known, alone := []string(nil), true
	for _, candidates := range set.byItem {
		known = append(known, candidates...)
		alone = alone && (len(candidates) < 2 || !slices.Contains(candidates, name))
	}
	switch {
	case !slices.Contains(known, name):
		slices.Sort(known)
		y.refuse(v.place, didYouMean(name, slices.Compact(known)), "candidate %s has no document", name)
	case alone:
		y.refuse(v.place, "add documents of other candidates to its items", "%s has no item in common with another candidate", name)
	}
	return name
}

func (l *pairList) addRow() {
	pair, at, ok := l.set.pair(l.cell)
	if !ok {
		return
	}
	key := pair
	if l.order != eval.OrderAsListed { // in all other orders, the reverse is the same question
		key = [2]int{min(pair[0], pair[1]), max(pair[0], pair[1])}
	}
	if before, ok := l.seen[key]; ok {
		l.refuse(at, "list each pair once; to ask again, use trials", "the pair is already in line %d", before)
		return
	}
	l.seen[key] = at.line
	l.pairs = append(l.pairs, pair)
}

// pair returns the two documents that the cells of pairColumns name; at is the place of the first
// of them.
func (set documentSet) pair(cell func(name string) (string, place)) (pair [2]int, at place, ok bool) {
	s := set.draft
	item, at := cell(pairColumns[0])
	candidates, ok := set.byItem[item]
	if !ok {
		fix := ""
		if near := wording.Nearest(item, slices.Collect(maps.Keys(set.items))); near != "" {
			fix = "did you mean " + near + "?"
		}
		s.refuse(at, fix, "no document belongs to item %q", printable(item))
		return pair, at, false
	}

	for i, name := range pairColumns[1:] {
		candidate, at := cell(name)
		documents := set.answers[[2]string{item, candidate}]
		switch len(documents) {
		case 0:
			s.refuse(at, didYouMean(candidate, candidates), "item %q has no candidate %q", printable(item), printable(candidate))
			return pair, at, false
		case 1:
			pair[i] = documents[0]
		default:
			s.refuse(at, "give its documents different candidates", "candidate %q has %d documents in item %q",
				printable(candidate), len(documents), printable(item))
			return pair, at, false
		}
	}

	if pair[0] == pair[1] {
		s.refuse(at, "", "a document is compared with itself")
		return pair, at, false
	}
	return pair, at, true
}
