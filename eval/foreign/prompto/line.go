package prompto

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/evalfleet/evalfleet/eval/foreign/internal/wire"
)

// Line is a line of an experiment: a JSON object whose keys keep their order.
type Line []Field

// Field is a key of a Line, and its value.
type Field struct {
	Name  string
	Value json.RawMessage
}

// ParseLine parses a JSON object. If a key is repeated, the last value is at the position of the first.
func ParseLine(text string) (Line, error) {
	values := json.NewDecoder(strings.NewReader(text))
	start, err := values.Token()
	if err != nil {
		return nil, err
	}
	if start != json.Delim('{') {
		return nil, fmt.Errorf("%v does not start an object", start)
	}
	var l Line
	for values.More() {
		name, err := values.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := values.Decode(&value); err != nil {
			return nil, err
		}
		l.Set(name.(string), value) // JSON keys are strings
	}
	_, err = values.Token()
	return l, err
}

// Set sets the value of a key, and appends the key if it is new.
func (l *Line) Set(name string, value json.RawMessage) {
	for i := range *l {
		if (*l)[i].Name == name {
			(*l)[i].Value = value
			return
		}
	}
	*l = append(*l, Field{name, value})
}

// Get returns the value of a key; nil if the line does not have it.
func (l Line) Get(name string) json.RawMessage {
	for _, f := range l {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// String returns the object on one line, with the values as they were read.
func (l Line) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, f := range l {
		if i > 0 {
			b.WriteString(", ")
		}
		b.Write(wire.Encode(f.Name))
		b.WriteString(": ")
		b.Write(f.Value)
	}
	b.WriteByte('}')
	return b.String()
}
