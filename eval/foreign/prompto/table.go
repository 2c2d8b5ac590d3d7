package prompto

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/evalfleet/evalfleet/eval/foreign/internal/wire"
)

// ParametersKey is the key of a line's parameters.
const ParametersKey = "parameters"

// parameterColumn is the prefix of the columns that contain a parameter.
const parameterColumn = ParametersKey + "-"

// IsParameter reports whether a column of a CSV file contains a parameter.
func IsParameter(column string) bool { return strings.Contains(column, parameterColumn) }

// textColumns are the columns of a CSV file whose cells are always text.
var textColumns = []string{"prompt", "api", "model_name", "group"}

// Column holds the types that all cells of a CSV column can have so far. Types are detected as pandas does.
type Column struct{ whole, number, boolean bool }

// NewColumn returns a column without cells.
func NewColumn(name string) Column {
	typed := !slices.Contains(textColumns, name)
	return Column{whole: typed, number: typed, boolean: typed}
}

// Take excludes the types that a cell does not have. Empty cells exclude none.
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

// Row converts a row of a CSV file to a line. Columns with parameters become one object; empty cells are omitted,
// except that of the prompt.
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
