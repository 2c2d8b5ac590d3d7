package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/answers"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// field is the user's name for one of a row's values, and whether any row had it.
type field struct {
	name string
	at   place
	path answers.Path
	met  bool
}

// answerFiles reads files of answers.
type answerFiles struct {
	set     *documentSet
	plain   bool           // fields have their documented names, and no tool is recognised
	as      *answers.Shape // named by the user; nil: recognised
	fields  answers.Fields
	chosen  []*field // those of fields, and further
	further []*field
	names   map[string]bool // every field name seen

	found     []foundAnswer
	questions []foundAnswer
	takings   []*taking
	opened    map[string]bool // files read, so that two patterns can match one
}

// foundAnswer is an answer, or facts about an item, and where it was found.
type foundAnswer struct {
	answers.Answer
	facts
	shape  *answers.Shape
	turns  bool         // Text is a list of turns
	images []eval.Image // that they show
	at     place
}

// taking counts what was taken from the files of one shape.
type taking struct {
	title             string
	questions         bool
	files, answers    int
	items, candidates map[string]bool
	skipped           map[string]int
}

func (set *documentSet) newAnswerFiles() *answerFiles {
	return &answerFiles{set: set, names: map[string]bool{}, opened: map[string]bool{}}
}

// answerBlock reads the forms {answers: "…/*.jsonl", item: …, …} and {jsonl: answers.jsonl, …}, and returns the
// patterns as written.
func (set *documentSet) answerBlock(y *yamlFile, v value) string {
	a := set.newAnswerFiles()
	var patterns []value
	files := func(plain bool) func(value) {
		return func(v value) {
			if patterns != nil {
				y.refuse(v.key, "use answers alone", "answers and jsonl both name files")
			}
			a.plain = plain
			if _, one := scalar(v.node); one {
				patterns = append(patterns, v)
				return
			}
			y.list(v, func(v value) { patterns = append(patterns, v) })
		}
	}
	choose := func(into *string) func(value) {
		return func(v value) {
			*into = y.text(v)
			a.choose(y, *into, v.place)
		}
	}
	y.mapping(v, keys{
		"answers":   files(false),
		"jsonl":     files(true),
		"as":        func(v value) { a.as = y.shape(v) },
		"id":        choose(&a.fields.ID),
		"item":      choose(&a.fields.Item),
		"candidate": choose(&a.fields.Candidate),
		"text":      choose(&a.fields.Text),
		"question":  choose(&a.fields.Question),
		"reference": choose(&a.fields.Reference),
		"category":  choose(&a.fields.Category),
		"fields": func(v value) {
			y.list(v, func(v value) { a.further = append(a.further, a.choose(y, y.called(v), v.place)) })
		},
	})

	before := len(y.problems)
	var written []string
	for _, v := range patterns {
		if pattern := y.text(v); pattern != "" {
			written = append(written, pattern)
			a.pattern(y, v, pattern)
		}
	}
	a.finish()
	described := strings.Join(written, ", ")
	if len(y.problems) == before && len(set.draft.asked.Documents) > 0 {
		for _, f := range a.chosen {
			if !f.met {
				y.refuse(f.at, didYouMean(f.name, slices.Collect(maps.Keys(a.names))), "no line of %s has a field %s", described, f.name)
			}
		}
	}

	return described
}

// choose notes a field that the user names.
func (a *answerFiles) choose(y *yamlFile, name string, at place) *field {
	f := &field{name: name, at: at}
	path, err := answers.ParsePath(name)
	if err != nil && name != "" {
		y.refuse(at, "want a name, or a path such as choices[0].turns[0]", "%v", err)
	}
	f.path = path
	a.chosen = append(a.chosen, f)
	return f
}

// shape reads the name of a known shape.
func (y *yamlFile) shape(v value) *answers.Shape {
	name := y.text(v)
	s := answers.Named(name)
	if s == nil && name != "" {
		y.refuse(v.place, didYouMean(name, answers.Names()), "unknown kind of answers %s", printable(name))
	}
	return s
}

// pattern reads the files that a pattern of an evaluation file names.
func (a *answerFiles) pattern(y *yamlFile, v value, pattern string) {
	s := a.set.draft
	path, ok := s.beside(v.place, pattern)
	if !ok {
		return
	}
	if err := openable(path); err == nil || !strings.ContainsAny(pattern, "*?[{") {
		if err != nil {
			y.refuse(v.place, "paths are relative to the evaluation file's folder", "%s: %v", pattern, err)
			return
		}
		a.file(v.place, path)
		return
	}

	files, ok := a.set.match(v.place, pattern)
	if ok && len(files) == 0 {
		y.refuse(v.place, "paths are relative to the evaluation file's folder", "no file matches %s", pattern)
	}
	for _, file := range files {
		a.file(v.place, file.path)
	}
}

// file reads a file. at is where it is named.
func (a *answerFiles) file(at place, path string) {
	s := a.set.draft
	real := realPath(path)
	if a.opened[real] {
		return
	}
	a.opened[real] = true
	shape, err := a.shapeOf(path)
	switch {
	case err != nil && s.refuseParquet(path, err):
	case err != nil:
		s.refuse(at, "", "%s: %v", path, err)
	case shape == nil && s.refuseHeader(path):
	case shape == nil:
		s.refuse(place{file: path, line: 1}, "name its fields in an evaluation file, for example documents: {answers: "+
			filepath.Base(path)+", item: id, candidate: model, text: output}", "no known kind of answers%s", fieldsSeen(path))
	default:
		a.readAs(path, shape)
	}
}

// shapeOf returns the shape by which a file is read; nil: it shows none.
func (a *answerFiles) shapeOf(path string) (*answers.Shape, error) {
	first, err := firstOf(path)
	if err != nil {
		return nil, err
	}
	shape := a.as
	switch {
	case shape != nil:
	case a.plain:
		shape = answers.Plain
	default:
		if shape = answers.Sniff(first); shape == nil {
			shape = answers.Guess(first)
		}
		if shape == nil && a.fields.Text != "" {
			shape = answers.Guess(map[string]any{"text": ""})
		}
	}
	if shape == nil {
		return nil, nil
	}
	return shape.With(a.fields)
}

// readAs reads the rows of a file.
func (a *answerFiles) readAs(path string, shape *answers.Shape) {
	t := a.taking(shape)
	t.files++
	reader := answers.NewReader(shape, slashes(path), nameable)
	a.set.draft.rows(path, shape, func(at place, row answers.Row) { a.row(at, shape, reader, row, t) })
}

// slashes returns the absolute path of a file with slashes, so that its folder has a name.
func slashes(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return filepath.ToSlash(path)
}

func (a *answerFiles) taking(shape *answers.Shape) *taking {
	for _, t := range a.takings {
		if t.title == shape.Title {
			return t
		}
	}
	t := &taking{
		title: shape.Title, questions: shape.Questions, items: map[string]bool{}, candidates: map[string]bool{}, skipped: map[string]int{},
	}
	a.takings = append(a.takings, t)
	return t
}

// row takes the answers of one row.
func (a *answerFiles) row(at place, shape *answers.Shape, reader *answers.Reader, row answers.Row, t *taking) {
	s := a.set.draft
	for name := range row.Values {
		a.names[name] = true
	}
	for _, f := range a.chosen {
		if value, _ := f.path.In(row.Values); value != nil {
			f.met = true
		}
	}

	images, turns, ok := a.conversation(at, row)
	if !ok {
		return
	}
	taken, skipped, faults := reader.Take(row)
	for _, fault := range faults {
		s.fault(at, fault, row, a.set.file)
	}
	if skipped != "" {
		t.skipped[skipped]++
		return
	}
	for _, answer := range taken {
		found := foundAnswer{Answer: answer, shape: shape, turns: turns, images: images, at: at}
		if !a.takeFacts(&found, row) || len(faults) > 0 {
			return
		}
		if len(found.Text) > maxText {
			s.refuse(at, "", "the text of %d bytes is too large: at most %d are read", len(found.Text), maxText)
			return
		}
		if shape.Questions {
			a.questions = append(a.questions, found)
			t.items[found.Item] = true
			continue
		}
		a.found = append(a.found, found)
	}
}

// fault reports a problem of a row's field. chosen means that an evaluation file can choose another.
func (s *draft) fault(at place, fault answers.Fault, row answers.Row, chosen bool) {
	at.path = strings.TrimPrefix(join(at.path, fault.Path), ".")
	if !fault.Missing {
		s.refuse(at, "want text", "the value is not text")
		return
	}
	fix := didYouMean(fault.Path, row.Names())
	if chosen {
		fix += " (choose with documents: {text: …})"
	}
	s.refuse(at, fix, "the field is missing")
}

// takeFacts sets what a row says about its item.
func (a *answerFiles) takeFacts(found *foundAnswer, row answers.Row) (ok bool) {
	found.question, found.reference, found.loose = found.Question, found.Reference, found.shape.Loose
	ok = true
	if found.Category != nil {
		path := a.fields.Category
		if path == "" {
			path = "category"
		}
		found.categories, ok = a.set.draft.categories(found.at, path, found.Category)
	}
	for _, f := range a.further {
		given, has := f.path.In(row.Values)
		if !has || given == nil {
			continue
		}
		if found.fields == nil {
			found.fields = map[string]string{}
		}
		found.fields[f.name] = factText(given)
	}
	return ok
}

// finish adds what was found to the documents.
func (a *answerFiles) finish() {
	s := a.set.draft
	a.nameVariants()
	var problems *many
	file := ""
	for _, found := range a.found {
		if found.at.file != file || problems == nil {
			if problems != nil {
				problems.say(place{file: file})
			}
			problems, file = s.many(), found.at.file
		}
		a.add(found)
		problems.bound()
	}
	if problems != nil {
		problems.say(place{file: file})
	}

	without := 0
	for _, found := range a.questions {
		if i, has := a.set.items[found.Item]; has {
			a.set.merge(&s.asked.Items[i], found.facts, found.at)
		} else {
			without++
		}
	}
	if without > 0 && len(a.found) > 0 {
		s.warn(place{}, "", "questions without answers: %d", without)
	}
	if a.set.reworded > 0 {
		s.warn(place{}, "",
			"answers whose question has another wording than that of the item's first answer, which judges see: %d", a.set.reworded)
	}
	a.say()
}

// nameVariants makes what a candidate was asked with part of its name, if there are several. The question is then
// what all variants have in common.
func (a *answerFiles) nameVariants() {
	variants := map[string]int{}
	for _, found := range a.found {
		if _, known := variants[found.Variant]; !known {
			variants[found.Variant] = len(variants) + 1
		}
	}
	if len(variants) < 2 {
		return
	}
	const longest = 40 // characters of a variant's own name
	for i := range a.found {
		found := &a.found[i]
		name := found.Variant
		if len(name) > longest || name == "" || !nameable(name) {
			name = "prompt " + wording.Count(variants[found.Variant])
		}
		found.Candidate += " · " + name
		found.question = found.Shared
	}
}

// add adds one answer. Another answer of the same candidate to the same item is a further sample.
func (a *answerFiles) add(found foundAnswer) {
	s := a.set.draft
	t := a.taking(found.shape)
	doc := foundDocument{
		id: found.ID, item: found.Item, candidate: found.Candidate, text: found.Text, facts: found.facts, at: found.at,
		turns: found.turns, images: found.images,
	}
	if doc.id == "" && doc.candidate == "" {
		s.refuse(doc.at, "give each line an id, or an item and a candidate", "the document has no id")
		return
	}

	earlier := a.set.answers[[2]string{doc.item, doc.candidate}]
	hash := eval.TextHash(doc.text)
	if found.shape.Once && slices.ContainsFunc(earlier, func(i int) bool { return s.asked.Documents[i].Hash == hash }) {
		t.skipped["answers that other rows have, too"]++
		return
	}
	if doc.id == "" {
		doc.id = answerID(doc.item, doc.candidate)
		if len(earlier) > 0 {
			doc.id += "#" + wording.Count(len(earlier)+1)
		}
	}
	before := len(s.asked.Documents)
	a.set.add(doc)
	if len(s.asked.Documents) == before {
		return
	}
	t.answers++
	t.items[doc.item] = true
	t.candidates[s.asked.Documents[before].Candidate] = true
}

// say tells what was taken, unless the evaluation file names every field.
func (a *answerFiles) say() {
	if a.plain {
		return
	}
	for _, t := range a.takings {
		a.set.draft.taken = append(a.set.draft.taken, "read "+t.String())
	}
}

// String describes what was taken: "3 files of arena-hard answers: 1,500 answers of 3 candidates to 500 items".
func (t *taking) String() string {
	text := wording.Counted(t.files, "file") + " of " + t.title + ": "
	if t.questions {
		text += wording.Counted(len(t.items), "item")
	} else {
		text += wording.Counted(t.answers, "answer") + " of " + wording.Counted(len(t.candidates), "candidate") + " to " +
			wording.Counted(len(t.items), "item")
	}
	for i, why := range slices.Sorted(maps.Keys(t.skipped)) {
		if i == 0 {
			text += "; not taken: "
		} else {
			text += ", "
		}
		text += wording.Count(t.skipped[why]) + " (" + why + ")"
	}
	return text
}
