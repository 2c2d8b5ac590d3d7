package report

import "github.com/evalfleet/evalfleet/internal/text/lines"

// pageColumns is the width in characters of a table on the page, where tables can be scrolled.
const pageColumns = 400

// sectionView is a section in the form that the page template needs: the same table as in text and Markdown.
type sectionView struct {
	Title string
	Heads []sectionCell // the first is the head of the row names
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

// cellClass returns the CSS class of the k-th cell of a column: "left" for names, "alarm" for warnings, otherwise
// empty.
func cellClass(c lines.Column, k int) string {
	switch {
	case c.Flexible:
		return "left"
	case c.Bad != nil && c.Bad[k]:
		return "alarm"
	}
	return ""
}

// titled returns the view with another title, below a heading that has that of the section.
func (s section) titled(title string) *sectionView {
	s.title = title
	v := s.view()
	return &v
}

func (s section) view() sectionView {
	v := sectionView{Title: s.title, Lines: s.notes(lines.Column.FullHead)}
	for _, c := range s.table {
		head := sectionCell{Text: c.FullHead()}
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
