package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf16"
)

// field is a key of a JSON object, and its value.
type field struct {
	name  string
	value json.RawMessage
}

// object is a JSON object whose keys keep their order.
type object []field

// parseObject reads an object; for a repeated key, the last value at the position of the first.
func parseObject(text string) (object, error) {
	values := json.NewDecoder(bytes.NewReader([]byte(text)))
	start, err := values.Token()
	if err != nil {
		return nil, err
	}
	if start != json.Delim('{') {
		return nil, fmt.Errorf("%v begins no object", start)
	}
	var o object
	for values.More() {
		name, err := values.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := values.Decode(&value); err != nil {
			return nil, err
		}
		o.set(name.(string), value) // a key is a string
	}
	_, err = values.Token()
	return o, err
}

// set puts a value under its key, behind all others where it is new.
func (o *object) set(name string, value json.RawMessage) {
	for i := range *o {
		if (*o)[i].name == name {
			(*o)[i].value = value
			return
		}
	}
	*o = append(*o, field{name, value})
}

// get is the value of a key; nil: there is none.
func (o object) get(name string) json.RawMessage {
	for _, f := range o {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// python appends the object as Python's json module writes it: ", " and ": " between,
// and nothing but ASCII.
func (o object) python(to *bytes.Buffer) error {
	to.WriteByte('{')
	for i, f := range o {
		if i > 0 {
			to.WriteString(", ")
		}
		quotePython(to, f.name)
		to.WriteString(": ")
		if err := dumpPython(to, f.value); err != nil {
			return err
		}
	}
	to.WriteByte('}')
	return nil
}

// dumpPython appends a JSON value as Python's json module writes it. Numbers stay as
// they are written.
func dumpPython(to *bytes.Buffer, value json.RawMessage) error {
	values := json.NewDecoder(bytes.NewReader(value))
	values.UseNumber()
	return dumpNext(to, values)
}

func dumpNext(to *bytes.Buffer, values *json.Decoder) error {
	token, err := values.Token()
	if err != nil {
		return err
	}
	switch v := token.(type) {
	case json.Delim:
		return dumpAll(to, values, v)
	case string:
		quotePython(to, v)
	case nil:
		to.WriteString("null")
	default: // a number as it is written, true or false
		fmt.Fprint(to, v)
	}
	return nil
}

// dumpAll appends the rest of a list or an object after its beginning.
func dumpAll(to *bytes.Buffer, values *json.Decoder, begin json.Delim) error {
	to.WriteRune(rune(begin))
	for i := 0; values.More(); i++ {
		if i > 0 {
			to.WriteString(", ")
		}
		if begin == '{' {
			if err := dumpNext(to, values); err != nil {
				return err
			}
			to.WriteString(": ")
		}
		if err := dumpNext(to, values); err != nil {
			return err
		}
	}
	end, err := values.Token()
	if err != nil {
		return err
	}
	to.WriteString(end.(json.Delim).String()) // More is false before it, and nothing else
	return nil
}

var pythonEscapes = map[rune]string{
	'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`,
}

func quotePython(to *bytes.Buffer, text string) {
	to.WriteByte('"')
	for _, r := range text {
		escaped, known := pythonEscapes[r]
		switch {
		case known:
			to.WriteString(escaped)
		case r >= ' ' && r <= '~':
			to.WriteByte(byte(r))
		case utf16.RuneLen(r) == 2:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(to, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(to, `\u%04x`, r)
		}
	}
	to.WriteByte('"')
}

// quoted is a text as a JSON value. Bytes that are no UTF-8, which no answer has that
// came as JSON, become U+FFFD.
func quoted(text string) json.RawMessage {
	var to bytes.Buffer
	quotePython(&to, text)
	return to.Bytes()
}
