package lines

import (
	"cmp"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/internal/text/harmless"
	"github.com/evalfleet/evalfleet/internal/text/wording"
)

// Separator is the text between two columns.
const Separator = "  "

// Column is a column of a table. Its texts must be safe to print.
type Column struct {
	Head     string
	Full     string // Head in full, for a page, which has the room; empty: Head
	Means    string // what the column shows, as the end of a sentence that begins with its head; empty: the head says it
	Cells    []string
	Right    bool   // aligned right
	Flexible bool   // names, which are shortened if the table is too wide
	Bad      []bool // cells that a page shows as a warning; nil: none
}

// FullHead returns the head for a page.
func (c Column) FullHead() string { return cmp.Or(c.Full, c.Head) }

func (c Column) width() int {
	width := wording.Columns.StringWidth(c.Head)
	for _, cell := range c.Cells {
		width = max(width, wording.Columns.StringWidth(cell))
	}
	return width
}

// Table is a list of columns with the same number of cells.
type Table []Column

// Heads returns columns of numbers, which are aligned right.
func Heads(names ...string) Table {
	var t Table
	for _, name := range names {
		t = append(t, Column{Head: name, Right: true})
	}
	return t
}

// InFull sets the full heads of the columns, in their order. An empty one leaves the head as it is.
func (t Table) InFull(heads ...string) Table {
	for k, full := range heads {
		t[k].Full = full
	}
	return t
}

// Legend returns what the columns show, each with its head as head returns it. It is empty if all heads say so.
func (t Table) Legend(head func(Column) string) string {
	var all []string
	for _, c := range t {
		if c.Means != "" {
			name := head(c)
			all = append(all, strings.ToUpper(name[:1])+name[1:]+": "+c.Means+".")
		}
	}
	return strings.Join(all, " ")
}

// Add appends a row.
func (t Table) Add(cells ...string) {
	for k := range t {
		t[k].Cells = append(t[k].Cells, cells[k])
	}
}

// Widened returns the table with as many of the columns as leave its flexible column readable, from the first on.
// left is how many do not fit.
func (t Table) Widened(columns []Column, width int) (wide Table, left int) {
	const readable = 24
	for k, next := range columns {
		if t.FixedWidth()+len(Separator)+next.width()+readable > width {
			return t, len(columns) - k
		}
		t = append(t, next)
	}
	return t, 0
}

// FixedWidth returns the width of the table without the texts of its flexible columns.
func (t Table) FixedWidth() int {
	width := len(Separator) * (len(t) - 1)
	for _, c := range t {
		if !c.Flexible {
			width += c.width()
		}
	}
	return width
}

// fits reports whether the table has room for `readable` columns of text in each flexible column.
func (t Table) fits(width, readable int) bool {
	names := 0
	for _, c := range t {
		if c.Flexible {
			names += min(c.width(), readable)
		}
	}
	return t.FixedWidth()+names <= width
}

// fitted returns the table without the last columns, if they would make its flexible column unreadable. left holds
// the heads of the removed columns.
func (t Table) fitted(width int) (fits Table, left []string) {
	const readable = 16
	for len(t) > 2 && !t.fits(width, readable) {
		last := t[len(t)-1]
		if last.Flexible {
			break
		}
		t, left = t[:len(t)-1], append([]string{last.Head}, left...)
	}
	return t, left
}

// rows returns the head and the rows as lines. Texts of flexible columns are shortened to fit the width.
func (t Table) rows(width int) (head string, rows []string) {
	t, widths := slices.Clone(t), make([]int, len(t))
	left, names := width-t.FixedWidth(), 0
	for k, c := range t {
		widths[k] = c.width()
		if c.Flexible {
			names++
		}
	}

	for k, c := range t { // names share the remaining width; what one does not need is left to the next
		if c.Flexible {
			widths[k] = max(min(widths[k], left/names), 1)
			left, names = left-widths[k], names-1
			t[k].Cells = harmless.Apart(c.Cells, widths[k])
		}
	}

	row := func(text func(Column) string) string {
		var b strings.Builder
		for k, c := range t {
			cell := wording.Columns.Truncate(text(c), widths[k], "…")
			padding := strings.Repeat(" ", max(widths[k]-wording.Columns.StringWidth(cell), 0))
			if k > 0 {
				b.WriteString(Separator)
			}
			if c.Right {
				b.WriteString(padding + cell)
			} else {
				b.WriteString(cell + padding)
			}
		}
		return strings.TrimRight(b.String(), " ")
	}
	for i := range t[0].Cells {
		rows = append(rows, row(func(c Column) string { return c.Cells[i] }))
	}
	return row(func(c Column) string { return c.Head }), rows
}

// Write writes the table. It omits the last columns if they do not fit, and names them below the table.
func (t Table) Write(out *Writer) {
	t, left := t.fitted(out.Width)
	head, rows := t.rows(out.Width)
	out.Print(Dim, head)
	for _, row := range rows {
		out.Print(Plain, row)
	}
	if len(left) > 0 {
		out.Line("Not shown at this width: " + strings.Join(left, ", ") + ".")
	}
}

// WriteStacked writes the table without omitting columns. If it does not fit, each row becomes a line with its first
// cell, followed by a line with the other cells and their heads. Empty cells and dashes are left out there. below is
// called after each row.
func (t Table) WriteStacked(out *Writer, below func(row int)) {
	const readable = 30
	if !t.fits(out.Width, readable) {
		for i, name := range t[0].Cells {
			out.Line(name)
			var cells []string
			for _, c := range t[1:] {
				if c.Cells[i] != "" && c.Cells[i] != "-" {
					cells = append(cells, strings.TrimSpace(strings.ToLower(c.Head)+" "+c.Cells[i]))
				}
			}
			out.Cells("  ", cells...)
			below(i)
		}
		return
	}
	head, rows := t.rows(out.Width)
	out.Print(Dim, head)
	for i, row := range rows {
		out.Print(Plain, row)
		below(i)
	}
}
