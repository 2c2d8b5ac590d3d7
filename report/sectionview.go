package report

import "github.com/evalfleet/evalfleet/internal/lines"

// pageColumns is the width of a section on the page, which can be scrolled.
const pageColumns = 400

// sectionView is a section as the page draws it: the same table as in text and Markdown.
type sectionView struct {
	Title string
	Heads []sectionCell // the first is that of the rows
	Rows  []sectionRow
	Lines []string
}

type sectionRow struct {
	Name  string
	Cells []sectionCell
}

type sectionCell struct {
	Text  string
	Class string
}

// cellClass is that of a cell of a column: of a name, of a warning, or none.
func cellClass(c lines.Column, k int) string {
	switch {
	case c.Flexible:
		return "left"
	case c.Bad != nil && c.Bad[k]:
		return "alarm"
	}
	return ""
}

func (s section) view() sectionView {
	v := sectionView{Title: s.title, Lines: s.lines}
	for _, c := range s.table {
		head := sectionCell{Text: c.Head}
		if c.Flexible {
			head.Class = "left"
		}
		v.Heads = append(v.Heads, head)
	}
	if len(s.table) == 0 {
		return v
	}
	for k, name := range s.table[0].Cells {
		row := sectionRow{Name: name}
		for _, c := range s.table[1:] {
			row.Cells = append(row.Cells, sectionCell{c.Cells[k], cellClass(c, k)})
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}
