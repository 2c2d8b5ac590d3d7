package main

import (
	"strings"

	"github.com/evalfleet/evalfleet/internal/harmless"
	"github.com/evalfleet/evalfleet/internal/wording"
)

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
func detail(text string) string { return "  " + harmless.Short(text, lookWidth-2) + "\n" }

// oneLine is harmless text in one line, without repeated spaces.
func oneLine(text string) string { return strings.Join(strings.Fields(harmless.Line(text)), " ") }
