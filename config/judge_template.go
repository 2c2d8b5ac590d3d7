package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// What templates of judge folders may name.
const (
	inputPrompt    = "{INPUT_PROMPT}"
	outputResponse = "{OUTPUT_RESPONSE}"
)

// templatePart is text or a placeholder.
type templatePart struct{ text, field string }

// templateParts parses a template for Python's str.format: names are in braces, and literal
// braces are doubled.
func (f *findings) templateParts(file, template string) []templatePart {
	var parts []templatePart
	var text strings.Builder
	j := jsonText{file: file, text: []byte(template)}
	for i := 0; i < len(template); i++ {
		c := template[i]
		if c != '{' && c != '}' {
			text.WriteByte(c)
			continue
		}
		if i+1 < len(template) && template[i+1] == c {
			text.WriteByte(c)
			i++
			continue
		}
		end := strings.IndexByte(template[i:], '}')
		name := template[i : i+end+1]
		switch {
		case c == '}' || end < 0:
			f.refuse(j.place(i, ""), fmt.Sprintf("write %c%c for one that means itself", c, c), "a single %c", c)
			return nil
		case name != inputPrompt && name != outputResponse:
			f.refuse(j.place(i, ""), fmt.Sprintf("want %s or %s; braces that mean themselves are doubled", inputPrompt, outputResponse),
				"no placeholder %s", printable(name))
		}
		parts = append(parts, templatePart{text: text.String()}, templatePart{field: name})
		text.Reset()
		i += end
	}
	return append(parts, templatePart{text: text.String()})
}

// fill is the template with values for its fields.
func (t folderTemplate) fill(values map[string]string) string {
	var b strings.Builder
	for _, part := range t.parts {
		b.WriteString(part.text)
		b.WriteString(values[part.field])
	}
	return b.String()
}

// pythonString is a JSON value as Python's str says it: texts as they are, anything
// else as its repr.
func pythonString(raw json.RawMessage) string {
	if text, ok := textOf(raw); ok {
		return text
	}
	var b strings.Builder
	pythonRepr(&b, raw)
	return b.String()
}

func pythonRepr(b *strings.Builder, raw json.RawMessage) {
	switch raw[0] {
	case '"':
		text, _ := textOf(raw)
		quotePython(b, text)
	case '[':
		var list []json.RawMessage
		_ = json.Unmarshal(raw, &list) // it is part of a valid line
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
		for i, m := range membersOf(raw, 0) {
			if i > 0 {
				b.WriteString(", ")
			}
			quotePython(b, m.key)
			b.WriteString(": ")
			pythonRepr(b, m.value)
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

// quotePython writes a text in quotes, in single ones unless only those are in it.
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
