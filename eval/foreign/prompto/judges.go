package prompto

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/evalfleet/evalfleet/eval/foreign/internal/wire"
)

// The placeholders of templates in judge folders.
const (
	inputPrompt    = "{INPUT_PROMPT}"
	outputResponse = "{OUTPUT_RESPONSE}"
)

// Template is a template for the prompts of judges.
type Template struct {
	Name  string
	parts []templatePart
}

// templatePart is literal text or a placeholder.
type templatePart struct{ text, field string }

// TemplateError is a problem in a template.
type TemplateError struct {
	Offset int
	// Message says what is wrong with Found, the part of the template at Offset.
	Message, Found, Fix string
}

// ParseTemplate parses a template for Python's str.format: names are in braces, and literal braces are doubled. It
// returns all problems found, up to a brace without a partner.
func ParseTemplate(name, template string) (Template, []TemplateError) {
	var problems []TemplateError
	var parts []templatePart
	var text strings.Builder
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
			return Template{}, append(problems, TemplateError{i, "a single", string(c), fmt.Sprintf("write %c%c for one that means itself", c, c)})
		case name != inputPrompt && name != outputResponse:
			problems = append(problems, TemplateError{i, "no placeholder", name,
				fmt.Sprintf("want %s or %s; braces that mean themselves are doubled", inputPrompt, outputResponse)})
		}
		parts = append(parts, templatePart{text: text.String()}, templatePart{field: name})
		text.Reset()
		i += end
	}

	return Template{Name: name, parts: append(parts, templatePart{text: text.String()})}, problems
}

func (t Template) fill(values map[string]string) string {
	var b strings.Builder
	for _, part := range t.parts {
		b.WriteString(part.text)
		b.WriteString(values[part.field])
	}
	return b.String()
}

// JudgeLine returns the line that asks a judge about an answered line. It contains the judge's settings, with keys in
// prompto's order.
func JudgeLine(judge string, settings Line, template Template, answered Line) Line {
	value := func(key, otherwise string) string {
		return pythonString(json.RawMessage(cmp.Or(string(answered.Get(key)), otherwise)))
	}
	question := template.fill(map[string]string{inputPrompt: value("prompt", `""`), outputResponse: value("response", `""`)})
	line := Line{
		{"id", wire.Encode(fmt.Sprintf("judge-%s-%s-%s", judge, template.Name, value("id", `"NA"`)))},
		{"template_name", wire.Encode(template.Name)},
		{"prompt", wire.Encode(question)},
	}
	for _, f := range settings {
		line.Set(f.Name, f.Value)
	}
	for _, f := range answered {
		line.Set("input-"+f.Name, f.Value)
	}
	return line
}
