package lines

import (
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/internal/harmless"
	"github.com/evalfleet/evalfleet/internal/wording"
)

// Separator is between columns.
const Separator = "  "

// Column of a table; texts are harmless already.
type Column struct {
	Head     string
	Cells    []string
	Right    bool   // aligned right
	Flexible bool   // of names, which are shortened where the table is too wide
	Bad      []bool // cells that a page shows as a warning; nil: none
}

func (c Column) width() int {
	width := wording.Columns.StringWidth(c.Head)
	for _, cell := range c.Cells {
		width = max(width, wording.Columns.StringWidth(cell))
	}
	return width
}

// Table is its columns, of equally many cells.
type Table []Column

// Heads are columns of numbers.
func Heads(names ...string) Table {
	var t Table
	for _, name := range names {
		t = append(t, Column{Head: name, Right: true})
	}
	return t
}

// Add adds a row.
func (t Table) Add(cells ...string) {
	for k := range t {
		t[k].Cells = append(t[k].Cells, cells[k])
	}
}

// Widened has as many of the columns more, from the first on, as leave its flexible
// column readable, and says how many are left.
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

// FixedWidth is the width without the flexible columns' texts.
func (t Table) FixedWidth() int {
	width := len(Separator) * (len(t) - 1)
	for _, c := range t {
		if !c.Flexible {
			width += c.width()
		}
	}
	return width
}

// fits reports whether the table has room for so many columns of each flexible column's
// texts.
func (t Table) fits(width, readable int) bool {
	names := 0
	for _, c := range t {
		if c.Flexible {
			names += min(c.width(), readable)
		}
	}
	return t.FixedWidth()+names <= width
}

// fitted is the table without the columns, from the last on, that leave its flexible
// column unreadable. Their heads are left.
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

// rows are the heads and each row in columns, the flexible ones shortened to the width.
func (t Table) rows(width int) (head string, rows []string) {
	t, widths := slices.Clone(t), make([]int, len(t))
	left, names := width-t.FixedWidth(), 0
	for k, c := range t {
		widths[k] = c.width()
		if c.Flexible {
			names++
		}
	}
	for k, c := range t { // names share what is left, and leave what they do not need to the next
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

// Write writes the table. Columns that do not fit are left out, from the last on, and named
// below.
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

// WriteStacked writes the table without leaving columns out: where it does not fit, each row
// becomes its name, which is the first cell, and below it a line of the other cells with their
// heads, but for those that are empty or a dash. below is called after each row.
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
