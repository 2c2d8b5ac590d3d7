package main

import (
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/evalfleet/evalfleet/internal/harmless"
)

// cellWidth counts columns as terminals do.
var cellWidth = &runewidth.Condition{StrictEmojiNeutral: true}

// clipMiddle shortens a name to a number of columns and keeps both its ends,
// because ids and models differ at the end as often as at the beginning.
func clipMiddle(name string, columns int) string {
	if cellWidth.StringWidth(name) <= columns || columns < 3 {
		return name
	}
	end := (columns - 1) / 2
	rest := cellWidth.StringWidth(name) - end
	return cellWidth.Truncate(name, columns-1-end, "") + "…" + cellWidth.TruncateLeft(name, rest, "")
}

// left fills a cell up on its right, right on its left; longer ones are clipped
// in the middle.
func left(cell string, columns int) string {
	return cellWidth.FillRight(clipMiddle(cell, columns), columns)
}

func right(cell string, columns int) string {
	return cellWidth.FillLeft(clipMiddle(cell, columns), columns)
}

// row joins cells to a line without blanks at its end.
func row(cells ...string) string {
	return strings.TrimRight(strings.Join(cells, "  "), " ") + "\n"
}

// detail is an indented line below another.
func detail(text string) string { return "  " + clipMiddle(text, lookWidth-2) + "\n" }

// oneLine is harmless text in one line, without repeated spaces.
func oneLine(text string) string { return strings.Join(strings.Fields(harmless.Line(text)), " ") }
