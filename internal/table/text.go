package table

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/internal/text/harmless"
)

// csv writes a header and the rows. A missing value is an empty cell.
func (s Sheet) csv(w io.Writer) error {
	out := csv.NewWriter(w)
	cells := make([]string, len(s.Heads))
	for i, head := range s.Heads {
		cells[i] = head.Name
	}
	if err := out.Write(cells); err != nil {
		return err
	}

	for values, err := range s.rows {
		if err != nil {
			return err
		}
		for i, value := range values {
			cells[i] = cell(value)
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
		return Inert(value)
	case int:
		return strconv.Itoa(value)
	case float64:
		return strconv.FormatFloat(value, 'g', -1, 64)
	case bool:
		return strconv.FormatBool(value)
	case time.Time:
		return FormatTime(value)
	default:
		panic(fmt.Sprintf("table: a cell of type %T", value)) // cannot happen: Column lists the types
	}
}

// Inert returns text in a form that no spreadsheet takes for a formula, and no terminal for an
// escape sequence: documents and models could otherwise run commands there. It puts an apostrophe
// before a formula, as spreadsheets do. Other formats have the text unchanged.
func Inert(text string) string {
	if text != "" && strings.IndexByte(harmless.Formulas, text[0]) >= 0 {
		text = "'" + text
	}
	return harmless.Text(text)
}

// jsonl writes the rows, one object per line. A missing value is null.
func (s Sheet) jsonl(w io.Writer) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	for values, err := range s.rows {
		if err != nil {
			return err
		}

		line.Reset()
		for i, head := range s.Heads {
			separator := `,"`
			if i == 0 {
				separator = `{"`
			}
			line.WriteString(separator + head.Name + `":`)
			value := values[i]
			if t, is := value.(time.Time); is {
				value = FormatTime(t)
			}
			if err := encoder.Encode(value); err != nil {
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
