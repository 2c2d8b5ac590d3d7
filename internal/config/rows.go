package config

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/evalfleet/evalfleet/eval/foreign/judgments"
	"github.com/evalfleet/evalfleet/eval/foreign/parquet"
)

// Rows reads the rows of a file, one after another: JSON objects, one per line or in a list, a table below a header, or
// Parquet. It passes each to take with its line; take must not keep it. An error of take is a problem of that line. Rows reads
// on after it, to report all problems. Its error is of type Problems.
func Rows(path string, take func(line int, row judgments.Row) error) error {
	s := &draft{}
	file, err := s.open(path)
	if err != nil {
		fix := ""
		if strings.Contains(err.Error(), "folder") {
			fix = "name the files in it, such as " + strings.TrimRight(path, "/") + "/*.jsonl"
		}
		s.refuse(place{file: path}, fix, "%v", err)
		return s.err()
	}
	defer file.Close()

	source := bufio.NewReaderSize(file, 1<<20)
	head, _ := source.Peek(source.Size())
	head = bytes.TrimLeft(bytes.TrimPrefix(head, byteOrderMark), " \t\r\n")
	switch {
	case len(head) == 0:
		s.refuse(place{file: path}, "", "the file is empty")
	case parquet.Is(head):
		s.parquetLines(path, file, "null", s.object(take))
	case head[0] == '{' || head[0] == '[':
		s.textLines(path, source, "null", s.object(take))
	default:
		s.cellRows(path, source, take)
	}
	return s.err()
}

// object returns a function that reads JSON objects.
func (s *draft) object(take func(int, judgments.Row) error) func(at place, line []byte) {
	row := judgments.Row{}
	return func(at place, line []byte) {
		clear(row)
		if !s.isText(at, line) {
			return
		}
		if err := json.Unmarshal(line, &row); err != nil || row == nil {
			s.refuse(at, "write one JSON object per line", "not a JSON object: %s", reason(err))
			row = judgments.Row{}
			return
		}
		s.refuseRow(at, take(at.line, row))
	}
}

// streamed returns a table that is read row by row. Call next before each row, and valid after it.
func (s *draft) streamed(path string, source *bufio.Reader, want columns) (t *table, next func()) {
	if head, _ := source.Peek(len(byteOrderMark)); bytes.Equal(head, byteOrderMark) {
		_, _ = source.Discard(len(byteOrderMark))
	}
	head, _ := source.Peek(1 << 16)
	whole := &wholeRows{from: source}
	whole.next()
	rows := csv.NewReader(whole)
	rows.Comma = separator(path, head)
	return s.tableOf(path, rows, want), whole.next
}

// valid refuses a row of a table that is not UTF-8.
func (t *table) valid() bool {
	for i, cell := range t.row {
		if !utf8.ValidString(cell) {
			line, column := t.rows.FieldPos(i)
			at := place{file: t.path, line: line, column: column}
			if len(t.header) > 0 { // it has been read
				at.path = t.header[i]
			}
			t.refuse(at, "save the file as UTF-8", "not UTF-8")
			return false
		}
	}
	return true
}

// cellRows reads the rows of a table, whose cells become JSON texts. It holds one row at a time.
func (s *draft) cellRows(path string, source *bufio.Reader, take func(int, judgments.Row) error) {
	t, next := s.streamed(path, source, columns{folded: true})
	row := judgments.Row{}
	t.each(func() {
		next()
		if !t.valid() {
			return
		}
		for i, cell := range t.row {
			row[t.header[i]] = appendJSON(row[t.header[i]][:0], cell)
		}
		line, _ := t.rows.FieldPos(0)
		s.refuseRow(place{file: path, line: line}, take(line, row))
	})
}

// appendJSON appends a text as JSON. Most cells need no escape.
func appendJSON(to []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			raw, _ := json.Marshal(text) // a text has a JSON form
			return append(to, raw...)
		}
	}
	return append(append(append(to, '"'), text...), '"')
}

// refuseRow reports an error of Rows' function.
func (s *draft) refuseRow(at place, err error) {
	var wrong *judgments.Error
	switch {
	case err == nil:
	case errors.As(err, &wrong):
		at.path = wrong.Field
		s.refuse(at, wrong.Fix, "%s", wrong.Message)
	default:
		s.refuse(at, "", "%v", err)
	}
}

// wholeRows bounds the bytes of one row, because a quoted cell may span lines without end.
type wholeRows struct {
	from io.Reader
	left int
}

// next allows another row.
func (w *wholeRows) next() { w.left = maxLine }

// Read reads from the file, unless the row is too long.
func (w *wholeRows) Read(into []byte) (int, error) {
	if w.left <= 0 {
		return 0, fmt.Errorf("a row has more than %d bytes: is a quote missing?", maxLine)
	}
	n, err := w.from.Read(into)
	w.left -= n
	return n, err
}

// Nameable reports whether a text can be the name of a candidate, an item or a judge.
func Nameable(text string) bool { return text != "" && nameable(text) }
