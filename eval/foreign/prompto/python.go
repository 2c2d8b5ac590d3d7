package prompto

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/evalfleet/evalfleet/eval/foreign/internal/wire"
)

// Python appends the line as Python's json module writes it: with the separators ", " and ": ", and only ASCII.
func (l Line) Python(to *bytes.Buffer) error {
	to.WriteByte('{')
	for i, f := range l {
		if i > 0 {
			to.WriteString(", ")
		}
		appendQuoted(to, f.Name)
		to.WriteString(": ")
		if err := AppendPython(to, f.Value); err != nil {
			return err
		}
	}
	to.WriteByte('}')
	return nil
}

// AppendPython appends a JSON value as Python's json module writes it. Numbers are kept as they are written.
func AppendPython(to *bytes.Buffer, value json.RawMessage) error {
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
		appendQuoted(to, v)
	case nil:
		to.WriteString("null")
	default: // true, false, or a number as it is written
		fmt.Fprint(to, v)
	}
	return nil
}

// dumpAll appends the rest of a list or an object, whose first token is begin.
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
	to.WriteString(end.(json.Delim).String()) // this token is always a delimiter, because More was false
	return nil
}

var pythonEscapes = map[rune]string{
	'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`,
}

func appendQuoted(to *bytes.Buffer, text string) {
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

// Quoted returns a text as a JSON string. Bytes that are not UTF-8 become U+FFFD; answers that arrived as JSON
// contain none.
func Quoted(text string) json.RawMessage {
	var to bytes.Buffer
	appendQuoted(&to, text)
	return to.Bytes()
}

// pythonString formats a JSON value as Python's str does: texts as they are, anything else as its repr.
func pythonString(raw json.RawMessage) string {
	if wire.Kind(raw) == '"' {
		text, _ := wire.Text(raw) // raw is part of a valid line
		return text
	}
	var b strings.Builder
	pythonRepr(&b, raw)
	return b.String()
}

func pythonRepr(b *strings.Builder, raw json.RawMessage) {
	switch raw[0] {
	case '"':
		text, _ := wire.Text(raw)
		quotePython(b, text)
	case '[':
		var list []json.RawMessage
		_ = json.Unmarshal(raw, &list) // raw is part of a valid line
		b.WriteByte('[')
		for i, element := range list {
			if i > 0 {
				b.WriteString(", ")
			}
			pythonRepr(b, element)
		}
		b.WriteByte(']')

	case '{':
		b.WriteByte('{')
		object, _ := ParseLine(string(raw))
		for i, f := range object {
			if i > 0 {
				b.WriteString(", ")
			}
			quotePython(b, f.Name)
			b.WriteString(": ")
			pythonRepr(b, f.Value)
		}
		b.WriteByte('}')
	case 'n':
		b.WriteString("None")
	case 't':
		b.WriteString("True")
	case 'f':
		b.WriteString("False")
	default:
		b.Write(raw)
	}
}

// quotePython writes a text as Python's repr does: in single quotes, unless it contains only those.
func quotePython(b *strings.Builder, text string) {
	quote := '\''
	if strings.Contains(text, "'") && !strings.Contains(text, `"`) {
		quote = '"'
	}
	escapes := map[rune]string{'\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, quote: `\` + string(quote)}
	b.WriteRune(quote)
	for _, r := range text {
		escaped, ok := escapes[r]
		switch {
		case ok:
			b.WriteString(escaped)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			fmt.Fprintf(b, `\U%08x`, r)
		}
	}
	b.WriteRune(quote)
}
