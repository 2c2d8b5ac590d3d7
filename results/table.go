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

	"github.com/evalfleet/evalfleet/internal/harmless"
)

// table is how rows are written as CSV, and as JSON Lines with the same names and
// typed values.
type table[T any] []column[T]

// column is a field of every row: a string, an int, a float64 (NaN and ±Inf: there is
// none), a time (zero: there is none) or nil (there is none).
type column[T any] struct {
	name  string
	value func(T) any
}

// csv writes a header and the rows. What there is not is an empty cell.
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

// cell is a value in CSV form.
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
		panic(fmt.Sprintf("results: a cell of type %T", value)) // column's types are those above
	}
}

// inert is text that no spreadsheet takes for a formula, and no terminal for a sequence:
// it would run what a document or a model says. An apostrophe goes before it, as
// spreadsheets write text themselves; the JSON Lines have it unchanged.
func inert(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		text = "'" + text
	}
	return harmless.Text(text)
}

// jsonl writes the rows, one object a line. What there is not is null.
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

// typed is a value in JSON form.
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

// all is rows as the iterations of a Reader yield them.
func all[T any](rows []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}
