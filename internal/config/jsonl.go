package config

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf16"
)

// field is the user's name for one of a line's values, and whether any line had it.
type field struct {
	name   string
	at     place
	chosen bool
	met    bool
}

// answers reads one file of documents, one JSON object per line.
type answers struct {
	set                                                      *documentSet
	id, item, candidate, text, question, reference, category field
	further                                                  []*field
	names                                                    map[string]bool // every field name seen
}

// jsonl reads the form {jsonl: answers.jsonl, id: …, item: …, …}, and returns the file's name as
// written.
func (set *documentSet) jsonl(y *yamlFile, v value) string {
	a := answers{set: set, names: map[string]bool{}, id: field{name: "id"}, item: field{name: "item"},
		candidate: field{name: "candidate"}, text: field{name: "text"}, question: field{name: "question"},
		reference: field{name: "reference"}, category: field{name: "category"}}
	name, at := "", v.place
	choose := func(f *field) func(value) {
		return func(v value) { f.name, f.at, f.chosen = y.text(v), v.place, true }
	}
	y.mapping(v, keys{
		"jsonl":     func(v value) { name, at = y.text(v), v.place },
		"id":        choose(&a.id),
		"item":      choose(&a.item),
		"candidate": choose(&a.candidate),
		"text":      choose(&a.text),
		"question":  choose(&a.question),
		"reference": choose(&a.reference),
		"category":  choose(&a.category),
		"fields": func(v value) {
			y.list(v, func(v value) { a.further = append(a.further, &field{name: y.called(v), at: v.place, chosen: true}) })
		},
	})
	if name == "" {
		return ""
	}
	path, ok := set.draft.beside(at, name)
	if !ok {
		return name
	}

	file, err := set.draft.open(path)
	if err != nil {
		y.refuse(at, "paths are relative to the evaluation file's folder", "%s: %v", path, err)
		return name
	}
	defer file.Close()
	before := len(y.problems)
	set.draft.jsonLines(path, file, a.line)
	if len(y.problems) == before && len(set.draft.asked.Documents) > 0 {
		for _, f := range append(a.further, &a.id, &a.item, &a.candidate, &a.question, &a.reference, &a.category) {
			if f.chosen && !f.met {
				y.refuse(f.at, didYouMean(f.name, slices.Collect(maps.Keys(a.names))), "no line of %s has a field %s", path, f.name)
			}
		}
	}

	return name
}

// beside returns the path of a file that the evaluation file names relative to itself. ok is false
// if that file must not be read.
func (s *draft) beside(at place, path string) (beside string, ok bool) {
	beside = inFolder(s.dir, path)
	return beside, s.mayRead(at, s.dir, beside)
}

// pathOf returns the path of the file that v names. ok is false if v names none, or the file must
// not be read.
func (s *draft) pathOf(y *yamlFile, v value) (path string, ok bool) {
	name := y.text(v)
	if name == "" {
		return "", false
	}
	return s.beside(v.place, name)
}

// halfCharacter returns the offset of the first escape in JSON that is half of a surrogate pair
// without the other half; -1 if there is none. JSON decoders silently replace such an escape with
// another character.
func halfCharacter(line []byte) int {
	for i := 0; i+1 < len(line); i++ {
		if line[i] != '\\' {
			continue
		}
		first, ok := escaped(line[i:])
		if !ok {
			i++ // another escape, such as a backslash
			continue
		}
		if utf16.IsSurrogate(first) {
			if second, ok := escaped(line[i+6:]); !ok || utf16.DecodeRune(first, second) == unicode.ReplacementChar {
				return i
			}
			i += 6
		}
		i += 5
	}
	return -1
}

// escaped returns the code unit of the \uXXXX with which text begins; ok is false if it does not.
func escaped(text []byte) (r rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}

// line adds one document.
func (a *answers) line(at place, values map[string]any) {
	s := a.set.draft
	for name := range values {
		a.names[name] = true
	}
	doc := foundDocument{at: at}
	ok := true
	for _, part := range []struct {
		field *field
		into  *string
	}{{&a.id, &doc.id}, {&a.item, &doc.item}, {&a.candidate, &doc.candidate}, {&a.question, &doc.question}, {&a.reference, &doc.reference}} {
		ok = a.take(at, values, part.field, part.into) && ok
	}

	doc.categories, doc.fields, ok = a.takeFacts(at, values, ok)
	if _, has := values[a.text.name]; !has {
		at.path = a.text.name
		s.refuse(at, didYouMean(a.text.name, slices.Collect(maps.Keys(values)))+" (choose with documents: {text: …})", "the field is missing")
		return
	}

	if !a.take(at, values, &a.text, &doc.text) || !ok {
		return
	}
	if len(doc.text) > maxText {
		s.refuse(at, "", "the text of %d bytes is too large: at most %d are read", len(doc.text), maxText)
		return
	}

	if doc.id == "" {
		if doc.candidate == "" {
			s.refuse(at, "give each line an id, or an item and a candidate", "the document has no id")
			return
		}
		doc.id = answerID(doc.item, doc.candidate)
	}
	a.set.add(doc)
}

// take reads one value of a line. Absent and null values are empty. Numbers are taken as written,
// but refused where a text is wanted.
func (a *answers) take(at place, values map[string]any, f *field, into *string) bool {
	switch x := values[f.name].(type) {
	case nil:
		return true
	case string:
		*into = x
	case json.Number:
		if f == &a.text || f == &a.question || f == &a.reference {
			break
		}
		*into = x.String()
	}
	f.met = true
	if _, isText := values[f.name].(string); *into == "" && !isText {
		at.path = f.name
		a.set.draft.refuse(at, "want text", "the value is not text")
		return false
	}
	return true
}

// reason returns why a line is not an object.
func reason(err error) string {
	switch {
	case err == nil:
		return "got null"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the line ends within it"
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return "got " + kind.Value
	}
	return err.Error()
}
