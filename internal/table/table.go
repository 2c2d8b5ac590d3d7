// Package table writes tables of results as CSV, JSON Lines and Parquet.
//
// A Table is the one definition of its columns: their names, types and meanings. All files and the documentation
// follow from it. The package does not know what the rows mean.
package table

import (
	"fmt"
	"io"
	"iter"
	"math"
	"strings"
	"time"
)

// Type is the type of a column's values.
type Type string

// The types of columns. Every value but a text can be missing.
const (
	IsText    Type = "text"
	IsInteger Type = "integer"
	IsNumber  Type = "number"
	IsBoolean Type = "boolean"
	IsTime    Type = "time"
)

// Table lists the columns of rows of type T, in their order.
type Table[T any] []Column[T]

// Column is a field of every row.
type Column[T any] struct {
	Head
	value func(T) any // a string, an int, a float64, a bool, a time, or nil if there is none
}

// Head describes a column. About is its meaning, in Markdown.
type Head struct {
	Name  string
	Type  Type
	About string
}

// Text returns a column of texts.
func Text[T any](name, about string, value func(T) string) Column[T] {
	return Column[T]{Head{name, IsText, about}, func(row T) any { return value(row) }}
}

// Integer returns a column of integers.
func Integer[T any](name, about string, value func(T) int) Column[T] {
	return Column[T]{Head{name, IsInteger, about}, func(row T) any { return value(row) }}
}

// Positive returns a column of integers above 0. A value of 0 is missing.
func Positive[T any](name, about string, value func(T) int) Column[T] {
	return Known(name, about, func(row T) (int, bool) { n := value(row); return n, n != 0 })
}

// Known returns a column of integers that are missing unless known is true.
func Known[T any](name, about string, value func(T) (n int, known bool)) Column[T] {
	return Column[T]{Head{name, IsInteger, about}, func(row T) any {
		if n, known := value(row); known {
			return n
		}
		return nil
	}}
}

// Number returns a column of numbers. NaN and infinities are missing.
func Number[T any](name, about string, value func(T) float64) Column[T] {
	return Column[T]{Head{name, IsNumber, about}, func(row T) any {
		if x := value(row); !math.IsNaN(x) && !math.IsInf(x, 0) {
			return x
		}
		return nil
	}}
}

// Boolean returns a column of booleans.
func Boolean[T any](name, about string, value func(T) bool) Column[T] {
	return Column[T]{Head{name, IsBoolean, about}, func(row T) any { return value(row) }}
}

// Time returns a column of times. The zero time is missing.
func Time[T any](name, about string, value func(T) time.Time) Column[T] {
	return Column[T]{Head{name, IsTime, about}, func(row T) any {
		if t := value(row); !t.IsZero() {
			return t
		}
		return nil
	}}
}

// Sheet is a table with its rows.
type Sheet struct {
	Name  string // of its files, without their endings
	Heads []Head
	rows  iter.Seq2[[]any, error] // the slice is reused
}

// Of returns the sheet of a table with rows. It reads the rows each time that it is written.
func Of[T any](name string, t Table[T], rows iter.Seq2[T, error]) Sheet {
	heads := make([]Head, len(t))
	for i, column := range t {
		heads[i] = column.Head
	}
	return Sheet{name, heads, func(yield func([]any, error) bool) {
		values := make([]any, len(t))
		for row, err := range rows {
			if err != nil {
				yield(nil, err)
				return
			}
			for i, column := range t {
				values[i] = column.value(row)
			}
			if !yield(values, nil) {
				return
			}
		}
	}}
}

// Rows returns a list in the form that Of takes.
func Rows[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, row := range list {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// Describe returns the columns as a table in Markdown: their names, types and meanings.
func (s Sheet) Describe() string {
	var out strings.Builder
	out.WriteString("| column | type | meaning |\n|---|---|---|\n")
	for _, head := range s.Heads {
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", head.Name, head.Type, head.About)
	}
	return out.String()
}

// TimeLayout is RFC 3339 with milliseconds.
const TimeLayout = "2006-01-02T15:04:05.000Z07:00"

// FormatTime returns a time in UTC as RFC 3339 with milliseconds; empty for the zero time.
func FormatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(TimeLayout)
}

// Format is a form in which sheets are written.
type Format struct {
	Ending string // of the file's name
	Write  func(Sheet, io.Writer) error
}

// The formats of sheets.
var (
	CSV       = Format{".csv", Sheet.csv}
	JSONLines = Format{".jsonl", Sheet.jsonl}
	Parquet   = Format{".parquet", Sheet.parquet}
)
