package prompto

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/evalfleet/evalfleet/eval/internal/wire"
)

// ParametersKey is the key of a line's parameters.
const ParametersKey = "parameters"

// parameterColumn begins the name of a column with a parameter.
const parameterColumn = ParametersKey + "-"

// IsParameter reports whether a CSV file's column has a parameter.
func IsParameter(column string) bool { return strings.Contains(column, parameterColumn) }

// textColumns are those of a CSV file whose cells are text, whatever they look like.
var textColumns = []string{"prompt", "api", "model_name", "group"}

// Column is what the cells of a CSV file's column are, by all of them, as pandas would have it.
type Column struct{ whole, number, boolean bool }

// NewColumn returns a column before its first cell.
func NewColumn(name string) Column {
	typed := !slices.Contains(textColumns, name)
	return Column{whole: typed, number: typed, boolean: typed}
}

// Take narrows the column down to what a cell can be, too. Empty cells say nothing.
func (c *Column) Take(cell string) {
	if cell == "" {
		return
	}
	_, notWhole := strconv.ParseInt(cell, 10, 64)
	f, notNumber := strconv.ParseFloat(cell, 64)
	_, isBoolean := booleans[cell]
	c.whole = c.whole && notWhole == nil
	c.number = c.number && notNumber == nil && !math.IsInf(f, 0) && !math.IsNaN(f) && !strings.ContainsAny(cell, "xX_")
	c.boolean = c.boolean && isBoolean
}

var booleans = map[string]bool{"True": true, "TRUE": true, "true": true, "False": false, "FALSE": false, "false": false}

func (c Column) value(cell string) json.RawMessage {
	var v any = cell
	switch {
	case c.whole:
		v, _ = strconv.ParseInt(cell, 10, 64)
	case c.number:
		v, _ = strconv.ParseFloat(cell, 64)
	case c.boolean:
		v = booleans[cell]
	}
	return wire.Encode(v)
}

// Row returns a row of a CSV file as the line that says the same. Columns with parameters
// become one object of them; empty cells are left out, but for the prompt.
func Row(header []string, columns []Column, cells []string) Line {
	var line, parameters Line
	for i, cell := range cells {
		name := header[i]
		switch {
		case cell == "" && name != "prompt":
		case IsParameter(name):
			parameters = append(parameters, Field{Name: strings.TrimPrefix(name, parameterColumn), Value: columns[i].value(cell)})
		default:
			line = append(line, Field{Name: name, Value: columns[i].value(cell)})
		}
	}
	if len(parameters) > 0 {
		line = append(line, Field{Name: ParametersKey, Value: json.RawMessage(parameters.String())})
	}
	return line
}
