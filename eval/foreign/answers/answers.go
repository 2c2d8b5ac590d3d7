// Package answers reads answers of models from the files that evaluation tools write: arena-hard, MT-bench,
// alpaca_eval, lm-eval, inspect, OpenAI evals, promptfoo, HELM and LMSYS.
//
// All of them become one form, Answer. A Shape is one row of a table (known.go): it says by which fields files of a
// tool are recognised, and at which paths of a row item, question, candidate and text are. A new format is a new row.
//
// The package reads rows that its caller has decoded from JSON or CSV. It opens no file. An inspect log is an archive,
// which Archive reads within bounds.
package answers

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
)

// Answer is one answer of one candidate, or, in a file of questions, only what is known about an item.
type Answer struct {
	ID        string // empty: the file names none
	Item      string // empty: the file has only one
	Candidate string
	Text      string

	Question, Reference string
	Category            any // a text, a list of texts, or nil
	// Variant names what the candidate was asked with, such as its prompt. Shared is the part of the question that all
	// variants have in common.
	Variant, Shared string
}

// Row is one decoded row of a file. Numbers are of type json.Number.
type Row struct {
	Values map[string]any
	// Head is what the file says about all rows: the object around a list of rows, or the header of an archive.
	Head map[string]any
}

// Fault is a problem of one field of a row.
type Fault struct {
	Path    string
	Missing bool // the field is missing; else its value has the wrong type
}

// Reader reads the rows of one file of a shape.
type Reader struct {
	shape    *Shape
	nameable func(string) bool
	head     map[string]any
	named    map[string]string
	first    map[[2]string]bool // item and candidate of the answers taken
	repeats  string             // the value of Shape.Repeats in the first row
	rows     int
}

// NewReader returns a reader of a file's rows. file is its path with slashes, from which some shapes take names.
// nameable reports whether a text can be an id; one that cannot be is replaced by a hash.
func NewReader(shape *Shape, file string, nameable func(string) bool) *Reader {
	return &Reader{shape: shape, nameable: nameable, named: shape.named(file), first: map[[2]string]bool{}}
}

// Take returns the answers in a row. skipped says why a row that is valid has none; empty: it has some.
func (r *Reader) Take(row Row) (taken []Answer, skipped string, faults []Fault) {
	if r.shape.Head != "" && row.Values[r.shape.Head] != nil {
		r.head = row.Values
		return nil, "header of the file", nil
	}
	if row.Head == nil {
		row.Head = r.head
	}
	for _, skip := range r.shape.Skip {
		if skip.When.holds(row) {
			return nil, skip.Why, nil
		}
	}
	if r.shape.Repeats != nil {
		value, _ := asText(r.shape.Repeats.in(row, nil), true)
		if r.rows++; r.rows == 1 {
			r.repeats = value
		}
		if value != r.repeats {
			return nil, r.shape.RepeatsWhy, nil
		}
	}

	common, faults := r.common(row)
	if r.shape.Questions {
		return []Answer{common}, "", faults
	}
	for _, side := range r.shape.Sides {
		answer := common
		faults = append(faults, r.name(row, side.Candidate, &answer.Candidate)...)
		for _, sample := range r.samples(row) {
			text, more := r.text(sample, side.Text)
			faults = append(faults, more...)
			answer.Text = text
			taken = append(taken, answer)
		}
	}

	if len(faults) == 0 && r.shape.First {
		key := [2]string{common.Item, taken[0].Candidate}
		if r.first[key] {
			return nil, r.shape.FirstWhy, nil
		}
		r.first[key] = true
	}
	return taken, "", faults
}

// common returns what all answers of a row have in common.
func (r *Reader) common(row Row) (a Answer, faults []Fault) {
	s := r.shape
	for _, fact := range []struct {
		paths Paths
		into  *string
	}{{s.Question, &a.Question}, {s.Reference, &a.Reference}} {
		value := r.cell(fact.paths.in(row, r.named))
		text, ok := asText(value, s.Loose)
		if !ok && value != nil {
			faults = append(faults, Fault{Path: fact.paths.found(row, r.named)})
		}
		*fact.into = text
	}

	faults = append(faults, r.name(row, s.ID, &a.ID)...)
	for _, part := range s.Item {
		var text string
		faults = append(faults, r.name(row, part, &text)...)
		switch {
		case text == "":
		case a.Item == "":
			a.Item = text
		default:
			a.Item += "/" + text
		}
	}
	if a.Item == "" && s.Prompts {
		a.Item = a.Question
	}
	if a.Item != "" && s.Prompts && (a.Item == a.Question || !r.nameable(a.Item)) {
		if a.Question == "" {
			a.Question = a.Item
		}
		a.Item = eval.QuestionID(a.Item)
	}

	a.Category = s.Category.in(row, r.named)
	a.Variant, _ = asText(s.Variant.in(row, r.named), true)
	a.Shared = variables(s.Shared.in(row, r.named))
	return a, faults
}

// name reads an id or a name: a text, or a number as it is written.
func (r *Reader) name(row Row, paths Paths, into *string) []Fault {
	switch value := paths.in(row, r.named).(type) {
	case nil:
	case string:
		*into = value
	case json.Number:
		*into = value.String()
	default:
		return []Fault{{Path: paths.found(row, r.named)}}
	}
	return nil
}

// samples returns the rows from which the answers of a row are read: its samples, each in place of the row, or the
// row itself.
func (r *Reader) samples(row Row) []Row {
	if r.shape.Samples == nil {
		return []Row{row}
	}
	value := r.shape.Samples.in(row, r.named)
	list, ok := value.([]any)
	switch {
	case !ok:
		list = []any{value}
	case len(list) == 0:
		list = []any{nil}
	}
	rows := make([]Row, len(list))
	for i, sample := range list {
		values, isObject := sample.(map[string]any)
		if !isObject {
			values = map[string]any{sampleKey: sample}
		}
		rows[i] = Row{Values: values, Head: row.Head}
	}
	return rows
}

// sampleKey is the name of a sample that is not an object.
const sampleKey = "sample"

// text reads an answer. A null is an empty answer; a missing field is a fault.
func (r *Reader) text(row Row, paths Paths) (string, []Fault) {
	value, has := paths.get(row, r.named)
	if !has || value == nil && r.shape.Samples != nil {
		return "", []Fault{{Path: paths.String(), Missing: true}}
	}
	if value == nil {
		return "", nil
	}
	text, ok := asText(attached(r.cell(value), row.Values), r.shape.Loose)
	if !ok {
		return "", []Fault{{Path: paths.found(row, r.named)}}
	}
	return text, nil
}

// cell returns a value with the list that its text contains, if the shape has such cells.
func (r *Reader) cell(value any) any {
	if text, isText := value.(string); isText && r.shape.JSONCells {
		return decodedCell(text)
	}
	return value
}

// Names returns the sorted names of a row's fields.
func (r Row) Names() []string { return slices.Sorted(maps.Keys(r.Values)) }
