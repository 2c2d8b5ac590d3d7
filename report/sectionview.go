package report

// pageColumns is the width of a section on the page, which can be scrolled.
const pageColumns = 400

// sectionView is a section as the page draws it: the same table as in text and Markdown.
type sectionView struct {
	Title string
	Heads []string // the first is that of the rows
	Rows  []sectionRow
	Lines []string
}

type sectionRow struct {
	Name  string
	Cells []sectionCell
}

type sectionCell struct {
	Text string
	Bad  bool
}

func (s section) view() sectionView {
	v := sectionView{Title: s.title, Lines: s.lines}
	for _, c := range s.table {
		v.Heads = append(v.Heads, c.Head)
	}
	if len(s.table) == 0 {
		return v
	}
	for k, name := range s.table[0].Cells {
		row := sectionRow{Name: name}
		for _, c := range s.table[1:] {
			row.Cells = append(row.Cells, sectionCell{c.Cells[k], c.Bad != nil && c.Bad[k]})
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}
