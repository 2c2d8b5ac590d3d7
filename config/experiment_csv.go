package config

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// parameterColumn is in the names of columns that are parameters.
const parameterColumn = "parameters-"

// textColumns hold text, whatever it looks like.
var textColumns = []string{"prompt", "api", "model_name", "group"}

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

// checkHeader wants columns with names of their own.
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
			x.refuse(at, "call one of them otherwise", "a second column is called %s", printable(name))
		}
	}
}

// column is what all cells of a column can be read as, besides as text.
type column struct{ whole, number, boolean bool }

// columnsOf scans a file for the types of its columns.
func columnsOf(path string, text []byte) []column {
	silent := &draft{} // errors are reported when the rows are read
	rows := silent.newTable(path, text, nil)
	columns := make([]column, len(rows.header))
	for i, name := range rows.header {
		isText := slices.Contains(textColumns, name)
		columns[i] = column{whole: !isText, number: !isText, boolean: !isText}
	}
	rows.each(func() {
		for i, cell := range rows.row {
			if cell != "" {
				columns[i].take(cell)
			}
		}
	})
	return columns
}

func (c *column) take(cell string) {
	_, notWhole := strconv.ParseInt(cell, 10, 64)
	f, notNumber := strconv.ParseFloat(cell, 64)
	_, isBoolean := booleans[cell]
	c.whole = c.whole && notWhole == nil
	c.number = c.number && notNumber == nil && !math.IsInf(f, 0) && !math.IsNaN(f) && !strings.ContainsAny(cell, "xX_")
	c.boolean = c.boolean && isBoolean
}

var booleans = map[string]bool{"True": true, "TRUE": true, "true": true, "False": false, "FALSE": false, "false": false}

// value is a cell as JSON.
func (c column) value(cell string) json.RawMessage {
	var v any = cell
	switch {
	case c.whole:
		v, _ = strconv.ParseInt(cell, 10, 64)
	case c.number:
		v, _ = strconv.ParseFloat(cell, 64)
	case c.boolean:
		v = booleans[cell]
	}
	return encodeJSON(v)
}

// encodeJSON is a value that JSON holds, with "<" and its like as they are.
func encodeJSON(v any) json.RawMessage {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic("config: encode " + err.Error()) // of what JSON holds
	}
	return bytes.TrimSpace(b.Bytes())
}

// object is a JSON object being written.
type object struct{ bytes.Buffer }

func (o *object) add(key string, value json.RawMessage) {
	if o.Len() > 0 {
		o.WriteString(", ")
	}
	o.Write(encodeJSON(key))
	o.WriteString(": ")
	o.Write(value)
}

func (o *object) text() string { return "{" + o.String() + "}" }

// addRow takes the table's row in.
func (x *experiment) addRow(rows *table, columns []column) {
	line, _ := rows.rows.FieldPos(0)
	l := experimentLine{at: place{file: rows.path, line: line}, values: map[string]placedValue{}}
	var all, parameters object
	var parametersAt place
	for i, cell := range rows.row {
		name := rows.header[i]
		if cell == "" && name != "prompt" {
			continue
		}
		line, column := rows.rows.FieldPos(i)
		at := place{file: rows.path, line: line, column: column, path: name}
		value := columns[i].value(cell)
		if strings.Contains(name, parameterColumn) {
			parameters.add(strings.TrimPrefix(name, parameterColumn), value)
			if parametersAt == (place{}) {
				parametersAt = at
			}
			continue
		}
		all.add(name, value)
		l.values[name] = placedValue{value, at}
	}
	if parameters.Len() > 0 {
		value := json.RawMessage(parameters.text())
		all.add("parameters", value)
		l.values["parameters"] = placedValue{value, parametersAt}
	}
	l.text = all.text()
	x.add(l)
}
