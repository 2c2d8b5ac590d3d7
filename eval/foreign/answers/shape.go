package answers

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Shape says how the files of a tool are recognised, and where their rows have what an Answer has.
type Shape struct {
	Name  string // for documents: {as: …}
	Title string // what its files contain

	// Needs are what the first row of a file of the shape has.
	Needs []Condition
	// Archive means that a file is an archive of rows.
	Archive bool
	// Rows is the list of rows in a file that is one object; nil: the rows are the file's values.
	Rows []string
	// Head is the field that only the line with facts about all others has.
	Head string
	// File takes names from a file's path, with slashes, as "@name".
	File *regexp.Regexp
	// Questions means that rows are items without answers.
	Questions bool
	// Prepared means that `run FILE` means something else by a file of this shape, so that only
	// documents in an evaluation file read it.
	Prepared bool

	ID                            Paths
	Item                          []Paths // parts, joined by slashes
	Question, Reference, Category Paths
	Variant, Shared               Paths
	Sides                         []Side
	// Samples is a list of which each element is an answer. Paths of sides then begin at the element.
	Samples Paths

	Skip       []Skip
	First      bool // of one candidate and item, only the first answer of a file counts
	FirstWhy   string
	Repeats    Paths // rows in which it differs from the first row repeat the same answers
	RepeatsWhy string
	Once       bool // the same answer of a candidate to an item can be in several rows
	Prompts    bool // a question can be an item's id, and is then hashed
	Loose      bool // values that are not text are taken as JSON, and questions may differ in wording
	JSONCells  bool // a text can be the JSON of a list
}

// Side is one answer of a row.
type Side struct{ Candidate, Text Paths }

// Skip is a reason why a valid row has no answer.
type Skip struct {
	When Condition
	Why  string // as in "120 rows not taken: …"
}

// Condition is "path", "!path", "path=value" or "path!=value". A path without a value has none of them.
type Condition struct {
	path  Paths
	value string
	not   bool
	equal bool
}

func (c Condition) holds(row Row) bool {
	value := c.path.in(row, nil)
	if c.equal {
		return (plain(value) == c.value) != c.not
	}
	return (value != nil) != c.not
}

// all reads alternatives separated by "|". It panics if the table of shapes has an invalid path.
func all(text string) Paths {
	var paths Paths
	for one := range strings.SplitSeq(text, "|") {
		path, err := ParsePath(one)
		if err != nil {
			panic("answers: " + err.Error())
		}
		paths = append(paths, path)
	}
	return paths
}

// parts reads the parts of an item's id, separated by spaces.
func parts(text string) []Paths {
	var list []Paths
	for part := range strings.FieldsSeq(text) {
		list = append(list, all(part))
	}
	return list
}

// when reads a condition.
func when(text string) Condition {
	path, value, equal := strings.Cut(text, "=")
	var c Condition
	if equal {
		path, c.not = strings.CutSuffix(path, "!")
	} else {
		path, c.not = strings.CutPrefix(path, "!")
	}
	c.path, c.value, c.equal = all(path), value, equal
	return c
}

// needs reads conditions separated by spaces.
func needs(text string) []Condition {
	var conditions []Condition
	for one := range strings.FieldsSeq(text) {
		conditions = append(conditions, when(one))
	}
	return conditions
}

// one returns the only side of a row.
func one(candidate, text string) []Side { return []Side{{Candidate: all(candidate), Text: all(text)}} }

// named returns the names in a file's path: its own without extensions, its folder's, and those of File.
func (s *Shape) named(file string) map[string]string {
	base := path.Base(file)
	names := map[string]string{"file": strings.TrimSuffix(base, path.Ext(base)), "folder": path.Base(path.Dir(file))}
	if s.File == nil {
		return names
	}
	if found := s.File.FindStringSubmatch(file); found != nil {
		for i, name := range s.File.SubexpNames() {
			if name != "" {
				names[name] = found[i]
			}
		}
	}
	return names
}

// fits reports whether the beginning of a file is of the shape.
func (s *Shape) fits(first map[string]any) bool {
	if len(s.Needs) == 0 {
		return false
	}
	return !slices.ContainsFunc(s.Needs, func(c Condition) bool { return !c.holds(Row{Values: first}) })
}

// Fields are the names of fields that a user gives. An empty one is not given.
type Fields struct{ ID, Item, Candidate, Text, Question, Reference, Category string }

// With returns the shape with some fields at other paths. The error is that of the first invalid path.
func (s *Shape) With(f Fields) (*Shape, error) {
	changed := *s
	changed.Sides = slices.Clone(s.Sides)
	var item, candidate, text Paths
	for _, field := range []struct {
		name string
		into *Paths
	}{
		{f.ID, &changed.ID}, {f.Item, &item}, {f.Candidate, &candidate}, {f.Text, &text}, {f.Question, &changed.Question},
		{f.Reference, &changed.Reference}, {f.Category, &changed.Category},
	} {
		if field.name == "" {
			continue
		}
		path, err := ParsePath(field.name)
		if err != nil {
			return nil, err
		}
		*field.into = Paths{path}
	}

	if item != nil {
		changed.Item, changed.Prompts = []Paths{item}, s != Plain
	}
	for i := range changed.Sides {
		side := &changed.Sides[i]
		if candidate != nil {
			side.Candidate = candidate
		}
		if text != nil {
			side.Text, changed.Samples = text, nil
		}
	}
	return &changed, nil
}

// Plain is the shape of rows with the fields of these names, which need not be there.
var Plain = &Shape{
	Name: "plain", Title: "answers", ID: all("id"), Item: parts("item"), Question: all("question"), Reference: all("reference"),
	Category: all("category"), Sides: one("candidate", "text"),
}

// PlainItems is the shape of rows about items with the fields of these names.
var PlainItems = &Shape{
	Name: "items", Title: "items", Questions: true, Item: parts("item"), Question: all("question"), Reference: all("reference"),
	Category: all("category"),
}

// guessed lists the names by which rows of no known tool commonly have a field, the most certain first.
var guessed = struct{ text, candidate, item, question, reference, category Paths }{
	text: all("text|answer|response|output|completion|generation|prediction|content|generated_text|model_output|" +
		"choices[0].message.content|messages[-1].content"),
	candidate: all("candidate|model|model_name|model_id|generator|system"),
	item:      all("item|item_id|question_id|prompt_id|instance_id|task_id"),
	question:  all("question|prompt|instruction|input|query|messages[role=user].content"),
	reference: all("reference"),
	category:  all("category"),
}

// Guess returns a shape for rows of no known tool, by the names of their fields; nil if they have no answer. If they
// name no candidate, it is the file's name.
func Guess(first map[string]any) *Shape {
	row := Row{Values: first}
	has := func(paths Paths) Paths {
		for i := range paths {
			if paths[i:i+1].in(row, nil) != nil {
				return paths[i : i+1]
			}
		}
		return nil
	}

	text, candidate := has(guessed.text), has(guessed.candidate)
	item, question := has(guessed.item), has(guessed.question)
	if text == nil || first["api"] != nil || first["custom_id"] != nil {
		return nil
	}
	if candidate == nil {
		candidate = all("@file")
	}
	if item == nil && question == nil {
		item = has(all("id"))
	}
	s := &Shape{
		Name: "answers", Title: "answers", Question: question, Reference: has(guessed.reference), Category: has(guessed.category),
		Sides: []Side{{Candidate: candidate, Text: text}}, Prompts: true,
	}
	if item != nil {
		s.Item = []Paths{item}
	}
	return s
}

// Sniff returns the known shape of a file by its first row; nil: none of them.
func Sniff(first map[string]any) *Shape {
	for _, s := range known {
		if s.fits(first) {
			return s
		}
	}
	return nil
}

// Named returns the known shape of a name; nil: there is none.
func Named(name string) *Shape {
	if i := slices.IndexFunc(known, func(s *Shape) bool { return s.Name == name }); i >= 0 {
		return known[i]
	}
	return nil
}

// Names lists the names of known shapes, sorted.
func Names() []string {
	var names []string
	for _, s := range known {
		names = append(names, s.Name)
	}
	slices.SortFunc(names, cmp.Compare)
	return slices.Compact(names)
}
