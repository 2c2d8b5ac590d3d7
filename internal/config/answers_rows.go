package config

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/evalfleet/evalfleet/eval/foreign/answers"
	"github.com/evalfleet/evalfleet/eval/foreign/parquet"
)

// rows reads the rows of a file: an archive of them, a table, Parquet, a JSON object with a list of them, or JSON values.
func (s *draft) rows(path string, shape *answers.Shape, take func(at place, row answers.Row)) {
	file, err := s.open(path)
	if err != nil {
		s.refuse(place{file: path}, "", "%v", err)
		return
	}
	defer file.Close()
	head := make([]byte, 4)
	n, _ := io.ReadFull(file, head)
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		s.refuse(place{file: path}, "", "%v", cause(err))
		return
	}

	lines := func() {
		s.jsonLines(path, file, func(at place, values map[string]any) { take(at, answers.Row{Values: values}) })
	}
	switch {
	case shape.Archive && answers.IsArchive(head[:n]):
		s.archiveRows(path, file, take)
	case parquet.Is(head[:n]):
		lines()
	case isTable(path):
		s.tableRows(path, file, take)
	case len(shape.Rows) > 0:
		s.objectRows(path, shape.Rows, take)
	default:
		lines()
	}
}

// isTable reports whether a file's name is that of a table.
func isTable(path string) bool {
	ext := strings.ToLower(filepath.Ext(path))
	return ext == ".csv" || ext == ".tsv"
}

// tableRows reads a table, one row at a time. An empty cell has no value.
func (s *draft) tableRows(path string, file *os.File, take func(at place, row answers.Row)) {
	source := bufio.NewReaderSize(file, 1<<16)
	head, _ := source.Peek(source.Size())
	if what, fix := noText(head, invalidUTF8(uncut(head)) >= 0); what != "" {
		s.refuse(place{file: path}, fix, "not a text: %s", what)
		return
	}

	t, next := s.streamed(path, source, columns{unnamed: true})
	t.each(func() {
		next()
		if !t.valid() {
			return
		}
		values := make(map[string]any, len(t.header))
		for i, name := range t.header {
			switch {
			case name == "":
			case t.row[i] == "":
				values[name] = nil
			default:
				values[name] = t.row[i]
			}
		}
		line, _ := t.rows.FieldPos(0)
		take(place{file: path, line: line}, answers.Row{Values: values})
	})
}

// uncut returns a text without a character that may be cut off at its end.
func uncut(text []byte) []byte {
	for cut := 1; cut < utf8.UTFMax && cut <= len(text); cut++ {
		if last := text[len(text)-cut:]; utf8.RuneStart(last[0]) && !utf8.FullRune(last) {
			return text[:len(text)-cut]
		}
	}
	return text
}

// objectRows reads a file that is one object: the elements of the list at a path of keys, and the rest of the object
// as their head.
func (s *draft) objectRows(path string, keys []string, take func(at place, row answers.Row)) {
	text, ok := s.readText(path, maxCSV)
	if !ok {
		return
	}
	text = withoutNaN(text, "null")
	at := place{file: path, line: 1}
	w := objectWalk{text: text, decoder: json.NewDecoder(bytes.NewReader(text))}
	w.decoder.UseNumber()
	head, err := w.object(keys)
	if err == nil && w.decoder.More() {
		err = errors.New("there is text after the object")
	}
	if err != nil {
		var syntax *json.SyntaxError
		end := w.decoder.InputOffset()
		switch {
		case errors.As(err, &syntax):
			end = syntax.Offset
		case errors.Is(err, io.ErrUnexpectedEOF):
			end = int64(len(text))
		}
		at = at.after(text[:end])
		s.refuse(at, "the tool may have been interrupted while it wrote the file", "not one JSON object: %s", reason(err))
		return
	}
	if !w.found {
		s.refuse(at, "", "the object has no list %s", strings.Join(keys, "."))
		return
	}

	many, counted := s.many(), 0
	for i, row := range w.rows {
		at.line += bytes.Count(text[counted:row[0]], []byte("\n"))
		counted = row[0]
		at.path = fmt.Sprintf("%s[%d]", strings.Join(keys, "."), i)
		if values, ok := s.jsonObject(at, text[row[0]:row[1]]); ok {
			take(at, answers.Row{Values: values, Head: head})
		}
		many.bound()
	}
	many.say(place{file: path})
}

// objectWalk finds a list in an object without decoding the list.
type objectWalk struct {
	text    []byte
	decoder *json.Decoder
	rows    [][2]int // offsets of the list's elements
	found   bool
}

// object reads an object, and notes the elements of the list at keys.
func (w *objectWalk) object(keys []string) (map[string]any, error) {
	if token, err := w.decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, cmp.Or(err, fmt.Errorf("got %v instead of an object", token))
	}

	all := map[string]any{}
	for w.decoder.More() {
		token, err := w.decoder.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string)
		switch {
		case key != keys[0]:
			var value any
			if err := w.decoder.Decode(&value); err != nil {
				return nil, err
			}
			all[key] = value
		case len(keys) > 1:
			inner, err := w.object(keys[1:])
			if err != nil {
				return nil, err
			}
			all[key] = inner
		default:
			if err := w.list(); err != nil {
				return nil, err
			}
		}
	}

	_, err := w.decoder.Token()
	return all, err
}

func (w *objectWalk) list() error {
	if token, err := w.decoder.Token(); err != nil || token != json.Delim('[') {
		return cmp.Or(err, fmt.Errorf("got %v instead of a list", token))
	}
	w.found = true
	for w.decoder.More() {
		var raw json.RawMessage
		if err := w.decoder.Decode(&raw); err != nil {
			return err
		}
		end := int(w.decoder.InputOffset())
		w.rows = append(w.rows, [2]int{end - len(raw), end})
	}
	_, err := w.decoder.Token()
	return err
}

// archiveRows reads the samples of an archive.
func (s *draft) archiveRows(path string, file *os.File, take func(at place, row answers.Row)) {
	at := place{file: path}
	info, err := file.Stat()
	if err != nil {
		s.refuse(at, "", "%v", cause(err))
		return
	}
	archive, err := answers.OpenArchive(file, info.Size())
	if err != nil {
		s.refuse(at, "", "%v", err)
		return
	}
	head, err := archive.Head()
	if err != nil {
		s.refuse(at, "", "%v", err)
		return
	}

	many := s.many()
	err = archive.Samples(func(name string, text []byte) {
		at := place{file: path, path: name}
		if values, ok := s.jsonObject(at, withoutNaN(text, "null")); ok {
			take(at, answers.Row{Values: values, Head: head})
		}
		many.bound()
	})
	many.say(at)
	if err != nil {
		s.refuse(at, "", "%v", err)
	}
}

// firstOf returns the fields of the first row of a file, or what its beginning has of them. nil: it has none.
func firstOf(path string) (map[string]any, error) {
	head, err := headOf(path)

	switch {
	case err != nil || len(head) == 0:
		return nil, err
	case answers.IsArchive(head):
		file, err := OpenRegular(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return nil, cause(err)
		}
		archive, err := answers.OpenArchive(file, info.Size())
		if err != nil {
			return nil, nil //nolint:nilerr // another archive is no file of answers
		}
		first, _ := archive.Head()
		return first, nil
	case parquet.Is(head):
		return firstOfParquet(path)
	case isTable(path):
		first := map[string]any{}
		for _, name := range headerOf(path, head) {
			first[name] = ""
		}
		return first, nil
	case head[0] == '{' || head[0] == '[':
		return answers.First(withoutNaN(head, "null")), nil
	}
	return nil, nil
}

// fieldsSeen lists the fields of a file's first row, for a message.
func fieldsSeen(path string) string {
	first, err := firstOf(path)
	if err != nil || len(first) == 0 {
		return ""
	}
	const most = 12
	names := answers.Row{Values: first}.Names()
	if len(names) > most {
		names = append(names[:most:most], "…")
	}
	return "; its first row has " + strings.Join(names, ", ")
}

// openable returns an error if a file cannot be read.
func openable(path string) error {
	file, err := OpenRegular(path)
	if err != nil {
		return err
	}
	return file.Close()
}
