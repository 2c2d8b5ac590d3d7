package config

import "github.com/evalfleet/evalfleet/eval/foreign/prompto"

// maxCSV bounds a CSV file, which is read whole.
const maxCSV = 256 << 20

// experimentColumns are those with a meaning. All others are kept as they are.
var experimentColumns = columns{known: []string{"id", "api", "model_name", "prompt"}}

// readCSV reads a file of rows below a header. A row is a JSON line whose keys are the columns
// in their order; the columns parameters-NAME become parameters. Empty cells are left out. A
// column contains numbers, or booleans, if all its cells do.
func (x *experiment) readCSV(path string) {
	text, ok := x.readText(path, maxCSV)
	if !ok {
		return
	}
	columns := columnsOf(path, text)
	rows := x.newTable(path, text, experimentColumns)
	rows.each(func() { x.whole(func() { x.addRow(rows, columns) }) })
}

// columnsOf scans a file for the types of its columns.
func columnsOf(path string, text []byte) []prompto.Column {
	silent := &draft{} // errors are reported when the rows are read
	rows := silent.newTable(path, text, experimentColumns)
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
