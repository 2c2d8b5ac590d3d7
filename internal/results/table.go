package results

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/internal/text/harmless"
)

// table says how rows are written as CSV, and as JSON Lines with the same names and typed values.
type table[T any] []column[T]

// column is a field of every row: a string, an int, a float64, a time or nil. NaN, ±Inf, the zero
// time and nil mean that there is no value.
type column[T any] struct {
	name  string
	value func(T) any
}

// csv writes a header and the rows. A missing value is an empty cell.
func (t table[T]) csv(w io.Writer, rows iter.Seq2[T, error]) error {
	out := csv.NewWriter(w)
	cells := make([]string, len(t))
	for i, column := range t {
		cells[i] = column.name
	}
	if err := out.Write(cells); err != nil {
		return err
	}
	for row, err := range rows {
		if err != nil {
			return err
		}
		for i, column := range t {
			cells[i] = cell(column.value(row))
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// cell returns a value in CSV form.
func cell(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return inert(value)
	case int:
		return strconv.Itoa(value)
	case float64:
		return formatFloat(value)
	case time.Time:
		return formatTime(value)
	default:
		panic(fmt.Sprintf("results: a cell of type %T", value)) // cannot happen: column lists the types
	}
}

// inert returns text in a form that no spreadsheet takes for a formula, and no terminal for an
// escape sequence: documents and models could otherwise run commands there. It puts an apostrophe
// before a formula, as spreadsheets do. The JSON Lines have the text unchanged.
func inert(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		text = "'" + text
	}
	return harmless.Text(text)
}

// jsonl writes the rows, one object per line. A missing value is null.
func (t table[T]) jsonl(w io.Writer, rows iter.Seq2[T, error]) error {
	var line bytes.Buffer
	values := json.NewEncoder(&line)
	values.SetEscapeHTML(false)
	for row, err := range rows {
		if err != nil {
			return err
		}
		line.Reset()
		for i, column := range t {
			separator := `,"`
			if i == 0 {
				separator = `{"`
			}
			line.WriteString(separator + column.name + `":`)
			if err := values.Encode(typed(column.value(row))); err != nil {
				return err
			}
			line.Truncate(line.Len() - 1) // Encode ends with a line feed
		}
		line.WriteString("}\n")
		if _, err := w.Write(line.Bytes()); err != nil {
			return err
		}
	}

	return nil
}

// typed returns a value in JSON form; nil if it is missing.
func typed(value any) any {
	switch v := value.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
	case time.Time:
		if v.IsZero() {
			return nil
		}
		return formatTime(v)
	}
	return value
}

func formatFloat(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return ""
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// all returns rows in the form in which a Reader yields them.
func all[T any](rows []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}
