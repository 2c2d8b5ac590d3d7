package config

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf16"
)

// maxLineProblems bounds how many problems of one file of answers are listed: a
// file in another format would otherwise report each of its lines.
const maxLineProblems = 50

// field is a name that the caller chose for one of a line's values, and whether
// any line had it.
type field struct {
	name   string
	at     place
	chosen bool
	met    bool
}

// answers reads one file of documents, a JSON object a line.
type answers struct {
	set                                                      *documentSet
	id, item, candidate, text, question, reference, category field
	further                                                  []*field
	names                                                    map[string]bool // every field name met
}

// jsonl reads the form {jsonl: answers.jsonl, id: …, item: …, …}, and returns
// the file's name as written.
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

// beside is a path of the evaluation file, which is relative to it. ok is false where
// it may not be read.
func (s *draft) beside(at place, path string) (beside string, ok bool) {
	beside = inFolder(s.dir, path)
	return beside, s.mayRead(at, s.dir, beside)
}

// pathOf is the path of the file that v names. ok is false where it names none, or the file may
// not be read.
func (s *draft) pathOf(y *yamlFile, v value) (path string, ok bool) {
	name := y.text(v)
	if name == "" {
		return "", false
	}
	return s.beside(v.place, name)
}

// jsonLines reads the JSON objects of a file, one a line, with numbers as they are
// written. Empty lines are skipped.
func (s *draft) jsonLines(path string, from io.Reader, take func(at place, values map[string]any)) {
	s.textLines(path, from, func(at place, line []byte) {
		if values, ok := s.jsonObject(at, line); ok {
			take(at, values)
		}
	})
}

// textLines reads the lines of a file that are not empty, without the space around
// them. What take is given is overwritten by the next line.
func (s *draft) textLines(path string, from io.Reader, take func(at place, line []byte)) {
	// A JSON string may take six bytes for one of the text.
	const maxLine = 6*maxText + 1<<16
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 1<<16), maxLine)
	before := len(s.problems)
	at := place{file: path}
	for lines.Scan() {
		at.line++
		line := lines.Bytes()
		if at.line == 1 {
			line = bytes.TrimPrefix(line, byteOrderMark)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			take(at, line)
		}
		if len(s.problems)-before >= maxLineProblems {
			s.refuse(at, "fix these first", "stopped reading here after %d problems", maxLineProblems)
			return
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		at.line++
		s.refuse(at, "write one JSON object per line", "the line is longer than %d bytes", maxLine)
	case err != nil:
		s.refuse(at, "", "%v", cause(err))
	}
}

func (s *draft) jsonObject(at place, line []byte) (values map[string]any, ok bool) {
	if offset := invalidUTF8(line); offset >= 0 {
		at.column = offset + 1
		s.refuse(at, "save the file as UTF-8", "not UTF-8: byte %d of the line is not part of a character", offset)
		return nil, false
	}
	if offset := halfCharacter(line); offset >= 0 {
		at.column = offset + 1
		s.refuse(at, "write the character itself, or both surrogates", "%s is half of a surrogate pair, which is not text", line[offset:offset+6])
		return nil, false
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	err := decoder.Decode(&values)
	if err == nil && decoder.More() {
		err = errors.New("there is text after the object")
	}
	if err != nil || values == nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			at.column = int(syntax.Offset)
		}
		s.refuse(at, "write one JSON object per line", "not a JSON object: %s", reason(err))
		return nil, false
	}
	return values, true
}

// halfCharacter is the offset of the first escape in JSON that is one half of a
// surrogate pair without the other, -1 when there is none: decoders put another
// character in its place without a word.
func halfCharacter(line []byte) int {
	for i := 0; i+1 < len(line); i++ {
		if line[i] != '\\' {
			continue
		}
		first, ok := escaped(line[i:])
		if !ok {
			i++ // another escape, such as that of a backslash
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

// escaped is the character of the \uXXXX with which text begins.
func escaped(text []byte) (r rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}

// line takes one document in.
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

// take reads one value of a line. Absent and null are empty; numbers are taken
// as written, except for texts.
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

// reason says why a line is no object.
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
