package config

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"path/filepath"
	"strings"
)

// table is a CSV file with a header, read row by row.
type table struct {
	*draft
	path   string
	rows   *csv.Reader
	header []string       // the names that count
	column map[string]int // by its name
	row    []string       // the current row
}

// newTable reads the header. If it is not what the reader wants, or the text is not CSV, the table has no rows.
func (s *draft) newTable(path string, text []byte, want columns) *table {
	rows := csv.NewReader(bytes.NewReader(text))
	rows.Comma = separator(path, text)
	return s.tableOf(path, rows, want)
}

// tableOf reads the header as newTable does, from rows that need not be in memory.
func (s *draft) tableOf(path string, rows *csv.Reader, want columns) *table {
	t := &table{draft: s, path: path, rows: rows, column: map[string]int{}}
	header, err := rows.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		t.refuseRow(err)
		t.rows = nil
		return t
	}

	t.row = header
	if err == nil && !t.valid() {
		t.rows = nil
		return t
	}
	for i, cell := range header {
		name := want.name(cell)
		t.header = append(t.header, name)
		t.column[name] = i
	}
	if !t.check(t.header, want) {
		t.rows = nil
	}
	rows.ReuseRecord = true
	return t
}

// refuseRow reports why a row cannot be read, and whether those after it can.
func (t *table) refuseRow(err error) (others bool) {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		t.refuse(place{file: t.path, line: parse.Line, column: parse.Column}, "", "not a row of CSV: %v", parse.Err)
		return true
	}
	t.refuse(place{file: t.path}, "", "%v", cause(err))
	return false
}

// separator returns the character between the cells of a CSV file: ',', ';' or tab, whichever the
// header uses, or the file's name says. Spreadsheets in many countries write semicolons, and copies
// from them have tabs.
func separator(path string, text []byte) rune {
	if strings.EqualFold(filepath.Ext(path), ".tsv") {
		return '\t'
	}
	header, _, _ := bytes.Cut(text, []byte("\n"))
	for _, other := range []byte{';', '\t'} {
		if bytes.IndexByte(header, other) >= 0 && bytes.IndexByte(header, ',') < 0 {
			return rune(other)
		}
	}
	return ','
}

func (t *table) cell(name string) (string, place) {
	i := t.column[name]
	line, column := t.rows.FieldPos(i)
	return t.row[i], place{file: t.path, line: line, column: column, path: name}
}

// each calls take for every row; take reads the row with cell. A table without rows is refused.
func (t *table) each(take func()) {
	if t.rows == nil {
		return
	}
	many, last := t.many(), place{file: t.path}
	for n := 0; ; n++ {
		many.bound()
		var err error
		t.row, err = t.rows.Read()
		switch {
		case errors.Is(err, io.EOF) && n == 0:
			t.refuse(place{file: t.path, line: 1}, "", "there are no rows below the header")
			return
		case errors.Is(err, io.EOF):
			many.say(last)
			return
		case err != nil:
			if !t.refuseRow(err) {
				return
			}
			continue
		}

		last.line, _ = t.rows.FieldPos(0)
		take()
	}
}
