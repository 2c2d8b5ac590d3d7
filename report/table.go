package report

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/internal/harmless"
	"github.com/evalfleet/evalfleet/internal/wording"
)

const separator = "  "

// column of a table; texts are harmless already.
type column struct {
	head     string
	cells    []string
	right    bool   // aligned right
	flexible bool   // of names, which are shortened where the table is too wide
	bad      []bool // cells that the page shows as a warning; nil: none
}

func (c column) width() int {
	width := wording.Columns.StringWidth(c.head)
	for _, cell := range c.cells {
		width = max(width, wording.Columns.StringWidth(cell))
	}
	return width
}

// table is its columns, of equally many cells.
type table []column

// heads are columns of numbers.
func heads(names ...string) table {
	var t table
	for _, name := range names {
		t = append(t, column{head: name, right: true})
	}
	return t
}

// add adds a row.
func (t table) add(cells ...string) {
	for k := range t {
		t[k].cells = append(t[k].cells, cells[k])
	}
}

// widened has as many of the columns more, from the first on, as leave its flexible
// column readable, and says how many are left.
func (t table) widened(columns []column, width int) (wide table, left int) {
	const readable = 24
	for k, next := range columns {
		if t.fixedWidth()+len(separator)+next.width()+readable > width {
			return t, len(columns) - k
		}
		t = append(t, next)
	}
	return t, 0
}

// fixedWidth is the width without the flexible columns' texts.
func (t table) fixedWidth() int {
	width := len(separator) * (len(t) - 1)
	for _, c := range t {
		if !c.flexible {
			width += c.width()
		}
	}
	return width
}

// fitted is the table without the columns, from the last on, that leave its flexible
// column unreadable. Their heads are left.
func (t table) fitted(width int) (fits table, left []string) {
	const readable = 16
	names := 0
	for _, c := range t {
		if c.flexible {
			names += min(c.width(), readable)
		}
	}
	for len(t) > 2 && t.fixedWidth()+names > width {
		last := t[len(t)-1]
		if last.flexible {
			break
		}
		t, left = t[:len(t)-1], append([]string{last.head}, left...)
	}
	return t, left
}

func (t table) write(out *textWriter) {
	t, left := t.fitted(out.width)
	t, widths := slices.Clone(t), make([]int, len(t))
	rest, names := out.width-t.fixedWidth(), 0
	for k, c := range t {
		widths[k] = c.width()
		names += one(c.flexible)
	}
	for k, c := range t { // names share the rest, and leave what they do not need to the next
		if c.flexible {
			widths[k] = max(min(widths[k], rest/names), 1)
			rest, names = rest-widths[k], names-1
			t[k].cells = harmless.Apart(c.cells, widths[k])
		}
	}
	row := func(text func(column) string) string {
		var b strings.Builder
		for k, c := range t {
			cell := wording.Columns.Truncate(text(c), widths[k], "…")
			padding := strings.Repeat(" ", max(widths[k]-wording.Columns.StringWidth(cell), 0))
			if k > 0 {
				b.WriteString(separator)
			}
			if c.right {
				b.WriteString(padding + cell)
			} else {
				b.WriteString(cell + padding)
			}
		}
		return strings.TrimRight(b.String(), " ")
	}
	out.print(dim, row(func(c column) string { return c.head }))
	for i := range t[0].cells {
		out.print(plain, row(func(c column) string { return c.cells[i] }))
	}
	if len(left) > 0 {
		out.line("Not shown at this width: " + strings.Join(left, ", ") + ".")
	}
}

// textWriter writes lines of at most width columns; its writer keeps the first
// error.
type textWriter struct {
	w      *bufio.Writer
	width  int
	colour bool
	styled string // style of lines that are wrapped
}

// The styles are ECMA-48 "select graphic rendition" parameters.
const (
	plain  = ""
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (o *textWriter) print(style, text string) {
	text = wording.Columns.Truncate(harmless.Line(text), o.width, "…")
	if o.colour && style != plain {
		text = "\x1b[" + style + "m" + text + "\x1b[0m"
	}
	_, _ = o.w.WriteString(text + "\n") // kept until Flush
}

func (o *textWriter) blank()              { o.print(plain, "") }
func (o *textWriter) heading(text string) { o.print(bold, text) }

// entry is a labelled text, broken between words.
func (o *textWriter) entry(label, text, style string) {
	before := o.styled
	o.styled = style
	o.wrap(fmt.Sprintf("%-*s", labelWidth, label), text)
	o.styled = before
}

// path is a labelled text to copy: it is not broken, and has lines of its own where it
// does not fit beside its label.
func (o *textWriter) path(label, text string) {
	if labelWidth+wording.Columns.StringWidth(text) <= o.width {
		o.entry(label, text, plain)
		return
	}
	o.print(plain, label)
	_, _ = o.w.WriteString(harmless.Line(text) + "\n")
}

// labelWidth is that of the labels of entries.
const labelWidth = 9

// line breaks a text between words where it is too long.
func (o *textWriter) line(text string) { o.wrap("", text) }

// item is a line of a list.
func (o *textWriter) item(text string) { o.wrap("- ", text) }

func (o *textWriter) wrap(mark, text string) {
	indent := strings.Repeat(" ", len(mark))
	current := mark
	empty := true
	for _, word := range strings.Split(text, " ") {
		if !empty && wording.Columns.StringWidth(current)+1+wording.Columns.StringWidth(word) > o.width {
			o.print(o.styled, current)
			current, empty = indent, true
		}
		if !empty {
			current += " "
		}
		current += word
		empty = false
	}
	o.print(o.styled, current)
}
