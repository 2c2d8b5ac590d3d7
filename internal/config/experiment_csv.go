package config

import (
	"slices"

	"github.com/evalfleet/evalfleet/eval/foreign/prompto"
)

// maxCSV bounds a CSV file, which is read whole.
const maxCSV = 256 << 20

// readCSV reads a file of rows below a header. A row is a JSON line whose keys are the columns
// in their order; the columns parameters-NAME become parameters. Empty cells are left out. A
// column contains numbers, or booleans, if all its cells do.
func (x *experiment) readCSV(path string) {
	text, ok := x.readText(path, maxCSV)
	if !ok {
		return
	}
	columns := columnsOf(path, text)
	rows := x.newTable(path, text, nil)
	if rows.rows == nil {
		return
	}
	x.checkHeader(path, rows.header)
	rows.each(func() { x.whole(func() { x.addRow(rows, columns) }) })
}

// checkHeader requires a name for each column, and refuses repeated names.
func (x *experiment) checkHeader(path string, header []string) {
	if len(header) == 0 {
		x.refuse(place{file: path}, "write the columns' names into the first line: id,api,model_name,prompt", "the file has no header")
	}
	for i, name := range header {
		at := place{file: path, line: 1, path: name}
		switch {
		case name == "":
			x.refuse(at, "", "column %d has no name", i+1)
		case slices.Contains(header[:i], name):
			x.refuse(at, "rename one of them", "a second column is called %s", printable(name))
		}
	}
}

// columnsOf scans a file for the types of its columns.
func columnsOf(path string, text []byte) []prompto.Column {
	silent := &draft{} // errors are reported when the rows are read
	rows := silent.newTable(path, text, nil)
	columns := make([]prompto.Column, len(rows.header))
	for i, name := range rows.header {
		columns[i] = prompto.NewColumn(name)
	}
	rows.each(func() {
		for i, cell := range rows.row {
			columns[i].Take(cell)
		}
	})
	return columns
}

func (x *experiment) addRow(rows *table, columns []prompto.Column) {
	places := map[string]place{}
	var parameters place
	for i, name := range rows.header {
		line, column := rows.rows.FieldPos(i)
		at := place{file: rows.path, line: line, column: column, path: name}
		switch {
		case !prompto.IsParameter(name):
			places[name] = at
		case rows.row[i] != "" && parameters == (place{}):
			parameters = at
		}
	}
	if parameters != (place{}) {
		places[prompto.ParametersKey] = parameters
	}
	row := prompto.Row(rows.header, columns, rows.row)
	first, _ := rows.rows.FieldPos(0)
	l := experimentLine{at: place{file: rows.path, line: first}, text: row.String(), values: map[string]placedValue{}}
	for _, f := range row {
		l.values[f.Name] = placedValue{f.Value, places[f.Name]}
	}
	x.add(l)
}
