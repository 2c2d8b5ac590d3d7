package config

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// many bounds how many problems of one file are kept, because a file in another format would have
// one in each of its lines.
type many struct {
	*findings
	before int // problems of other files
	more   int
}

func (f *findings) many() *many { return &many{findings: f, before: len(f.problems)} }

// bound drops problems beyond the maximum, and counts them.
func (m *many) bound() {
	if extra := len(m.problems) - m.before - maxListed; extra > 0 {
		m.more += extra
		m.problems = m.problems[:m.before+maxListed]
	}
}

// say reports at the end of the file how many problems were dropped.
func (m *many) say(at place) {
	if m.more > 0 {
		left := Problem{File: at.file, Line: at.line, Message: "and " + wording.Counted(m.more, "more problem"), more: m.more}
		m.problems = append(m.problems, left)
	}
}

// neverText stands for values that JSON does not have. It is refused where text is wanted, unlike null.
const neverText = "[]"

// jsonLines reads the JSON objects of a file, or the rows of a Parquet file, with numbers as they are written.
func (s *draft) jsonLines(path string, file *os.File, take func(at place, values map[string]any)) {
	line := func(at place, line []byte) {
		if values, ok := s.jsonObject(at, line); ok {
			take(at, values)
		}
	}
	if isParquet(file) {
		s.parquetLines(path, file, neverText, line)
		return
	}
	s.textLines(path, file, neverText, line)
}

// maxLine is the most bytes in a line: a JSON string may take six bytes for one byte of text.
const maxLine = 6*maxText + 1<<16

// textLines passes each JSON value of a file to take: one per line, without surrounding space.
// Empty lines are skipped. The elements of a list, and objects that span lines, count as lines.
// take must not keep the line, because the next one overwrites it.
//
// nan replaces NaN and Infinity, which are not valid JSON.
func (s *draft) textLines(path string, from io.Reader, nan string, take func(at place, line []byte)) {
	source := bufio.NewReaderSize(from, 1<<16)
	if head, _ := source.Peek(source.Size()); spansLines(head) {
		s.jsonValues(path, source, nan, take)
		return
	}

	lines := bufio.NewScanner(source)
	lines.Buffer(make([]byte, 0, 1<<16), maxLine)
	many := s.many()
	at := place{file: path}
	for lines.Scan() {
		at.line++
		line := lines.Bytes()
		if at.line == 1 {
			line = bytes.TrimPrefix(line, byteOrderMark)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			take(at, withoutNaN(line, nan))
		}
		many.bound()
	}
	many.say(at)

	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		at.line++
		s.refuse(at, "write one JSON object per line", "the line is longer than %d bytes", maxLine)
	case err != nil:
		s.refuse(at, "", "%v", cause(err))
	}
}

// isText reports whether a line has whole characters only. If not, it refuses the line.
func (s *draft) isText(at place, line []byte) bool {
	if offset := invalidUTF8(line); offset >= 0 {
		at.column = offset + 1
		s.refuse(at, "save the file as UTF-8", "not UTF-8: byte %d of the line is not part of a character", offset)
		return false
	}

	if offset := halfCharacter(line); offset >= 0 {
		at.column = offset + 1
		s.refuse(at, "write the character itself, or both surrogates", "%s is half of a surrogate pair, which is not text", line[offset:offset+6])
		return false
	}
	return true
}

func (s *draft) jsonObject(at place, line []byte) (values map[string]any, ok bool) {
	if !s.isText(at, line) {
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

// spansLines reports whether a file with this beginning is a list of JSON values, or has objects
// that span lines.
func spansLines(head []byte) bool {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, byteOrderMark), " \t\r\n")
	if len(head) == 0 || head[0] != '[' && head[0] != '{' {
		return false
	}
	first, _, whole := bytes.Cut(head, []byte("\n"))
	first = bytes.TrimSpace(first)
	switch {
	case head[0] == '[':
		return true
	case !whole || json.Valid(withoutNaN(first, "null")):
		return false
	}
	return bytes.IndexByte([]byte(",{["), first[len(first)-1]) >= 0
}

// jsonValues reads the elements of a list, or the values of a file one after another.
func (s *draft) jsonValues(path string, from io.Reader, nan string, take func(at place, value []byte)) {
	at, many := place{file: path, line: 1}, s.many()
	text, err := io.ReadAll(io.LimitReader(from, maxCSV+1))
	switch {
	case err != nil:
		s.refuse(place{file: path}, "", "%v", cause(err))
		return
	case len(text) > maxCSV:
		s.refuse(place{file: path}, "write one JSON object per line", "a list of more than %d bytes is not read", maxCSV)
		return
	}
	text = withoutNaN(bytes.TrimPrefix(text, byteOrderMark), nan)
	decoder, counted := json.NewDecoder(bytes.NewReader(text)), 0
	to := func(offset int) {
		offset = max(counted, min(offset, len(text)))
		at.line += bytes.Count(text[counted:offset], []byte("\n"))
		counted = offset
	}
	refuse := func(err error) {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			to(int(syntax.Offset))
		}
		s.refuse(at, "write one JSON object per line, or a list of objects", "not JSON: %s", reason(err))
	}

	list := bytes.TrimLeft(text, " \t\r\n")[0] == '['
	if list {
		_, _ = decoder.Token()
	}
	for decoder.More() {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			refuse(err)
			return
		}
		to(int(decoder.InputOffset()) - len(raw))
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			refuse(err)
			return
		}
		take(at, compact.Bytes())
		many.bound()
	}
	if list {
		if _, err := decoder.Token(); err != nil { // the closing bracket of the list
			refuse(err)
		}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		to(int(decoder.InputOffset()))
		s.refuse(at, "write one list, or one JSON object per line", "there is text after the list")
	}
	many.say(at)
}

// notNumbers lists Python's words for numbers that JSON does not have.
var notNumbers = [][]byte{[]byte("-Infinity"), []byte("Infinity"), []byte("NaN")}

// withoutNaN replaces the words that are not valid JSON, so that they do not make the rest of a
// line unreadable.
func withoutNaN(text []byte, with string) []byte {
	if !bytes.Contains(text, notNumbers[1]) && !bytes.Contains(text, notNumbers[2]) {
		return text
	}
	var out []byte
	quoted := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '\\' && i+1 < len(text):
			out = append(out, c)
			i++
			c = text[i]
		case c == '"':
			quoted = !quoted
		case !quoted:
			if word := notNumberAt(text[i:]); word > 0 {
				out = append(out, with...)
				i += word - 1
				continue
			}
		}
		out = append(out, c)
	}

	return out
}

// notNumberAt returns the length of the word with which text begins if it is one of notNumbers, else 0.
func notNumberAt(text []byte) int {
	for _, word := range notNumbers {
		if rest, ok := bytes.CutPrefix(text, word); ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n,]}"), rest[0]) >= 0) {
			return len(word)
		}
	}
	return 0
}
