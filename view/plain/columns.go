// Package plain writes what package view reads as plain text for a terminal: tables and lines of
// up to Width columns, and the progress of an evaluation on one line. It reads nothing itself.
package plain

import (
	"strings"

	"github.com/evalfleet/evalfleet/internal/harmless"
	"github.com/evalfleet/evalfleet/internal/wording"
)

// Width is the widest line of what Status and Limits return.
const Width = 100

// left fills a cell up on its right, right on its left; longer ones are clipped
// in the middle.
func left(cell string, columns int) string {
	return wording.Columns.FillRight(harmless.Short(cell, columns), columns)
}

func right(cell string, columns int) string {
	return wording.Columns.FillLeft(harmless.Short(cell, columns), columns)
}

// row joins cells to a line without blanks at its end.
func row(cells ...string) string {
	return strings.TrimRight(strings.Join(cells, "  "), " ") + "\n"
}

// detail is an indented line below another.
func detail(text string) string { return "  " + harmless.Short(text, Width-2) + "\n" }
