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
	header []string
	column map[string]int // by its name in the header
	row    []string       // the current row
}

// newTable reads the header, which must have the columns in need. If one is missing, or the text is
// not CSV, the table has no rows.
func (s *draft) newTable(path string, text []byte, need []string) *table {
	rows := csv.NewReader(bytes.NewReader(text))
	rows.Comma = separator(path, text)
	return s.tableOf(path, rows, need)
}

// tableOf reads the header as newTable does, from rows that need not be in memory.
func (s *draft) tableOf(path string, rows *csv.Reader, need []string) *table {
	t := &table{draft: s, path: path, rows: rows, column: map[string]int{}}
	header, err := t.rows.Read()
	if parse := (*csv.ParseError)(nil); errors.As(err, &parse) {
		s.refuse(place{file: path, line: parse.Line, column: parse.Column}, "", "not a row of CSV: %v", parse.Err)
		t.rows = nil
		return t
	}
	for i, name := range header {
		name = strings.TrimSpace(name)
		t.header = append(t.header, name)
		t.column[name] = i
	}
	t.rows.ReuseRecord = true
	for _, name := range need {
		if _, ok := t.column[name]; !ok {
			s.refuse(place{file: path, line: 1}, "want the columns "+strings.Join(need, ","), "the column %s is missing", name)
			t.rows = nil
			break
		}
	}
	return t
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

// each calls take for every row; take reads the row with cell.
func (t *table) each(take func()) {
	if t.rows == nil {
		return
	}
	many, last := t.many(), place{file: t.path}
	for ; ; many.bound() {
		var err error
		t.row, err = t.rows.Read()
		if errors.Is(err, io.EOF) {
			many.say(last)
			return
		}
		if parse := (*csv.ParseError)(nil); errors.As(err, &parse) {
			t.refuse(place{file: t.path, line: parse.Line, column: parse.Column}, "", "not a row of CSV: %v", parse.Err)
			continue
		} else if err != nil {
			t.refuse(place{file: t.path}, "", "%v", cause(err))
			return
		}
		last.line, _ = t.rows.FieldPos(0)
		take()
	}
}
