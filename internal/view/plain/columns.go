// Package plain writes what package view reads as plain text for a terminal: tables and lines of at most a number of
// columns, and the progress of an evaluation on one line. It reads nothing itself.
package plain

import (
	"strings"

	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/lines"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Width is the number of columns of text that is not written to a terminal.
const Width = 100

// detailLines bounds the lines of text from others, such as a provider's message.
const detailLines = 3

func left(cell string, columns int) string { return wording.Columns.FillRight(cell, columns) }

func right(cell string, columns int) string { return wording.Columns.FillLeft(cell, columns) }

// written returns what write writes, in lines of at most columns.
func written(columns int, write func(*lines.Writer)) string {
	var text strings.Builder
	out := lines.New(&text, columns, false)
	write(out)
	_ = out.Flush() // to memory
	return text.String()
}

// title writes a name and behind after it on the same line. It shortens the name, or gives it a line of its own if too
// little of it would be left.
func title(out *lines.Writer, name, behind string) {
	const readable = 20
	name = harmless.OneLine(name)
	room := out.Width - len(lines.Separator) - wording.Columns.StringWidth(behind)
	if room < min(readable, wording.Columns.StringWidth(name)) {
		out.Print(lines.Plain, harmless.Short(name, out.Width))
		out.Wrap("  ", behind)
		return
	}
	out.Print(lines.Plain, harmless.Short(name, room)+lines.Separator+behind)
}

// detail writes an indented text below another one.
func detail(out *lines.Writer, text string) {
	out.Wrap("  ", harmless.Short(harmless.OneLine(text), detailLines*(out.Width-2)))
}
