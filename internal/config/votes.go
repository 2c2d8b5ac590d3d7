package config

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/internal/text/harmless"
)

// maxVotes bounds the size of a file of votes.
const maxVotes = 512 << 20

// Names of columns, in addition to pairColumns, of a file with one verdict per row. Without one of
// winnerColumns, every other column holds the verdicts of an annotator.
const annotatorColumn = "annotator"

var winnerColumns = []string{"winner", "winner_doc_id"}

// voteColumns are the columns of a file of votes that are no annotators.
var voteColumns = columns{need: pairColumns, known: slices.Concat(winnerColumns, []string{annotatorColumn})}

// unnamed is the annotator of the verdicts in a file that names none.
const unnamed = "people"

// voteList reads one file of people's verdicts.
type voteList struct {
	*draft
	set        documentSet
	candidates map[string]bool // of all items
	seen       map[voted]int   // line of each
	votes      []eval.Vote
	absent     []place // places of candidates that have no document of the item
}

// voted identifies an annotator's verdict on a pair.
type voted struct {
	pair      [2]int
	annotator string
}

// votes reads the file that v names, and stores the verdicts in it.
func (s *draft) votes(y *yamlFile, v value, set documentSet) {
	path, ok := s.pathOf(y, v)
	if !ok || len(s.asked.Documents) == 0 {
		return
	}
	before := len(s.problems)
	list := voteList{draft: s, set: set, candidates: s.candidates(), seen: map[voted]int{}}
	if ext := filepath.Ext(path); ext == ".jsonl" || ext == ".parquet" {
		list.readLines(y, v, path)
	} else if text, ok := s.readText(path, maxVotes); ok {
		list.readTable(s.newTable(path, text, voteColumns))
	}

	if len(s.problems) > before {
		return
	}
	if len(list.votes) == 0 {
		s.refuse(place{file: path}, "", "it contains no votes")
		return
	}
	if n := len(list.absent); n > 0 {
		s.warn(list.absent[0], "", "rows omitted because a candidate has no document for the item: %d, the first here", n)
	}
	text := eval.EncodeVotes(list.votes)
	s.settings.Votes = eval.TextHash(text)
	s.texts[s.settings.Votes] = text
}

func (l *voteList) readTable(t *table) {
	if t.rows == nil {
		return
	}
	if len(t.header) == len(pairColumns) || slices.Contains(t.header, annotatorColumn) && l.winnerOf(t.header) == "" {
		l.refuse(place{file: t.path, line: 1}, "add a column winner, or one for each annotator", "there is no column with verdicts")
		return
	}
	t.each(func() {
		l.addRow(t.header, func(name string) (string, place) {
			text, at := t.cell(name)
			return harmless.FromCell(text), at
		})
	})
}

// readLines reads JSON objects, whose keys are the names of columns.
func (l *voteList) readLines(y *yamlFile, v value, path string) {
	file, err := l.open(path)
	if err != nil {
		y.refuse(v.place, "paths are relative to the evaluation file's folder", "%s: %v", path, err)
		return
	}
	defer file.Close()

	l.jsonLines(path, file, func(at place, values map[string]any) {
		names := slices.Sorted(maps.Keys(values))
		for _, name := range names {
			at.path = printable(name)
			if l.refuseCase(at, name, names, voteColumns.known) {
				return
			}
		}

		words := map[string]string{}
		for _, name := range l.used(names) {
			switch value := values[name].(type) {
			case nil:
			case string:
				words[name] = value
			case json.Number:
				words[name] = value.String()
			default:
				at.path = name
				l.refuse(at, "want text or a number", "the value is neither")
				return
			}
		}
		for _, name := range pairColumns[1:] {
			if _, ok := words[name]; !ok {
				at.path = name
				l.refuse(at, didYouMean(name, names), "the field is missing")
				return
			}
		}
		l.addRow(names, func(name string) (string, place) { return words[name], place{file: at.file, line: at.line, path: name} })
	})
}

// used returns the names in a line that have values.
func (l *voteList) used(names []string) []string {
	winner := l.winnerOf(names)
	if winner == "" { // all other names are annotators
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return name != winner && name != annotatorColumn && !slices.Contains(pairColumns, name)
	})
}

// winnerOf returns the column of verdicts; "" if each annotator has a column.
func (l *voteList) winnerOf(names []string) string {
	for _, name := range winnerColumns {
		if slices.Contains(names, name) {
			return name
		}
	}
	return ""
}

// addRow reads the verdicts of one row, which has cells with these names.
func (l *voteList) addRow(names []string, cell func(name string) (string, place)) {
	item, _ := cell(pairColumns[0])
	for _, name := range pairColumns[1:] {
		candidate, at := cell(name)
		if l.set.byItem[item] != nil && l.candidates[candidate] && l.set.answers[[2]string{item, candidate}] == nil {
			l.absent = append(l.absent, at)
			return
		}
	}

	pair, _, ok := l.set.pair(cell)
	if !ok {
		return
	}

	if column := l.winnerOf(names); column != "" {
		annotator := unnamed
		if slices.Contains(names, annotatorColumn) {
			var at place
			if annotator, at = cell(annotatorColumn); !l.named(annotator, at) {
				return
			}
		}
		word, at := cell(column)
		l.vote(annotator, word, pair, at)
		return
	}

	for _, name := range names {
		if slices.Contains(pairColumns, name) {
			continue
		}
		if word, at := cell(name); strings.TrimSpace(word) != "" && l.named(name, at) { // empty: no verdict
			l.vote(name, word, pair, at)
		}
	}
}

// named reports whether an annotator's name can be printed.
func (l *voteList) named(annotator string, at place) bool {
	if annotator != "" && nameable(annotator) {
		return true
	}
	l.unnameable(at, annotator, "cannot be an annotator's name")
	return false
}

// vote adds one verdict.
func (l *voteList) vote(annotator, word string, pair [2]int, at place) {
	first, second := l.asked.Documents[pair[0]], l.asked.Documents[pair[1]]
	meant := winners(strings.TrimSpace(word), first, second)
	switch len(meant) {
	case 0:
		l.refuse(at, "want 0 or tie, 1 or a, 2 or b, or the winner's name or id", "%q is neither candidate of the pair", printable(word))
		return
	case 1:
	default:
		l.refuse(at, "write "+strings.Join(meant, " or "), "%q is ambiguous", printable(word))
		return
	}
	key := voted{[2]int{min(pair[0], pair[1]), max(pair[0], pair[1])}, annotator}
	if before, ok := l.seen[key]; ok {
		l.refuse(at, "name annotators in a column annotator, each once per pair", "%s already judged the pair in line %d", annotator, before)
		return
	}
	l.seen[key] = at.line
	l.votes = append(l.votes, eval.Vote{Annotator: annotator, First: first.ID, Second: second.ID, Winner: meant[0]})
}

// winners returns the IDs that a verdict can mean: document IDs, or eval.Tie. The verdict is a
// code, a letter, or the name or ID of one of the pair.
func winners(word string, first, second eval.Document) []string {
	var meant []string
	for _, reading := range []struct{ winner, code, letter, name string }{
		{eval.Tie, "0", eval.Tie, eval.Tie},
		{first.ID, "1", "a", first.Candidate},
		{second.ID, "2", "b", second.Candidate},
	} {
		code := reading.code + ".0" // as programs write a column of numbers with gaps
		if strings.EqualFold(reading.letter, word) || slices.Contains([]string{reading.code, code, reading.name, reading.winner}, word) {
			meant = append(meant, reading.winner)
		}
	}
	return meant
}
