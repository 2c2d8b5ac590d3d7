package config

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
)

// maxPairs bounds the size of a file of pairs.
const maxPairs = 512 << 20

// pairColumns are the columns that a file of pairs must have; others are left
// alone, so that a file of votes serves too.
var pairColumns = []string{"item", "candidate_a", "candidate_b"}

// pairList reads one file of pairs.
type pairList struct {
	*draft
	set    documentSet
	order  eval.Order
	path   string
	column map[string]int
	seen   map[[2]int]int // line of each pair
	pairs  [][2]int
}

// listedPairs reads the file of pairs that v names.
func (s *draft) listedPairs(y *yamlFile, v value, set documentSet, order eval.Order) [][2]int {
	name := y.text(v)
	if name == "" {
		return nil
	}
	list := pairList{draft: s, set: set, order: order, path: s.beside(name), column: map[string]int{}, seen: map[[2]int]int{}}
	text, ok := s.readText(list.path, maxPairs)
	if !ok {
		return nil
	}
	before := len(s.problems)
	list.read(csv.NewReader(bytes.NewReader(text)))
	if len(s.problems) == before && len(list.pairs) == 0 {
		s.refuse(place{file: list.path}, "", "no pairs are listed")
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
		y.refuse(v.place, didYouMean(name, slices.Compact(known)), "no document is of candidate %s", name)
	case alone:
		y.refuse(v.place, "give its items documents of others", "%s has no item in common with another candidate", name)
	}
	return name
}

func (l *pairList) read(rows *csv.Reader) {
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err == nil {
		for i, name := range header {
			l.column[strings.TrimSpace(name)] = i
		}
	}
	for _, name := range pairColumns {
		if _, ok := l.column[name]; !ok {
			l.refuse(place{file: l.path, line: 1}, "want the columns "+strings.Join(pairColumns, ","), "the column %s is missing", name)
			return
		}
	}
	for before := len(l.problems); ; {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if len(l.problems)-before >= maxLineProblems {
			l.refuse(place{file: l.path}, "mend these first", "reading stops after %d problems", maxLineProblems)
			return
		}
		if parse := (*csv.ParseError)(nil); errors.As(err, &parse) {
			l.refuse(place{file: l.path, line: parse.Line, column: parse.Column}, "", "not a row of CSV: %v", parse.Err)
			continue
		} else if err != nil {
			l.refuse(place{file: l.path}, "", "%v", cause(err))
			return
		}
		l.row(rows, row)
	}
}

// row takes one pair in.
func (l *pairList) row(rows *csv.Reader, row []string) {
	value := func(name string) (string, place) {
		i := l.column[name]
		line, column := rows.FieldPos(i)
		return row[i], place{file: l.path, line: line, column: column, path: name}
	}
	item, at := value("item")
	candidates, ok := l.set.byItem[item]
	if !ok {
		items := slices.Collect(maps.Keys(l.set.items))
		fix := ""
		if near := Nearest(item, items); near != "" {
			fix = "did you mean " + near + "?"
		}
		l.refuse(at, fix, "no document belongs to item %q", printable(item))
		return
	}
	var pair [2]int
	for i, name := range pairColumns[1:] {
		candidate, at := value(name)
		documents := l.set.answers[[2]string{item, candidate}]
		switch len(documents) {
		case 0:
			l.refuse(at, didYouMean(candidate, candidates), "item %q has no candidate %q", printable(item), printable(candidate))
			return
		case 1:
			pair[i] = documents[0]
		default:
			l.refuse(at, "give its documents candidates of their own", "candidate %q has %d documents in item %q",
				printable(candidate), len(documents), printable(item))
			return
		}
	}
	if pair[0] == pair[1] {
		l.refuse(at, "", "a document is compared with itself")
		return
	}
	key := pair
	if l.order != eval.OrderAsListed { // only as listed is the reverse another question
		key = [2]int{min(pair[0], pair[1]), max(pair[0], pair[1])}
	}
	if before, ok := l.seen[key]; ok {
		l.refuse(at, "list each pair once; to ask again, use trials", "the pair was listed before, in line %d", before)
		return
	}
	l.seen[key] = at.line
	l.pairs = append(l.pairs, pair)
}
