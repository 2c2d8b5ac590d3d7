package answers

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// asText returns a value as the text that a judge reads. The texts of a list are the turns of a conversation; a list
// of parts with types, as chat APIs have them, is the text of its parts. loose also takes numbers, truth values and
// objects, as they are written in JSON.
func asText(value any, loose bool) (string, bool) {
	switch value := value.(type) {
	case string:
		return value, true
	case []any:
		if text, ok := ofParts(value); ok {
			return text, true
		}
		turns := make([]string, len(value))
		for i, one := range value {
			text, ok := asText(one, loose)
			if !ok {
				return "", false
			}
			turns[i] = text
		}
		return conversation(turns), len(turns) > 0
	case map[string]any:
		if content, has := value["content"]; has {
			return asText(content, loose)
		}
	}

	if !loose || value == nil {
		return "", false
	}
	raw, err := json.Marshal(value)
	return string(raw), err == nil
}

// ofParts joins the texts of a list of parts with types. ok is false if the list is something else, or has no text.
func ofParts(list []any) (text string, ok bool) {
	var b strings.Builder
	for _, one := range list {
		part, _ := one.(map[string]any)
		if _, typed := part["type"].(string); !typed {
			return "", false
		}
		if text, isText := part["text"].(string); isText {
			b.WriteString(text)
			ok = true
		}
	}
	return b.String(), ok
}

// conversation joins the turns of one side. A single turn is the text itself.
func conversation(turns []string) string {
	if len(turns) == 1 {
		return turns[0]
	}
	var b strings.Builder
	for i, turn := range turns {
		if i > 0 {
			b.WriteString("\n\n")
		}
		fmt.Fprintf(&b, "[Turn %d]\n%s", i+1, turn)
	}
	return b.String()
}

// variables returns the values that fill a template: the only one as it is, several with their names.
func variables(value any) string {
	values, _ := value.(map[string]any)
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(values)) {
		text, ok := asText(values[name], true)
		switch {
		case !ok:
			continue
		case len(values) == 1:
			return text
		case i > 0:
			b.WriteString("\n")
		}
		b.WriteString(name + ": " + text)
	}
	return b.String()
}

// attached returns the text that a reference to one of a sample's attachments stands for. Inspect stores long texts
// that way.
func attached(value any, values map[string]any) any {
	text, _ := value.(string)
	if key, ok := strings.CutPrefix(text, "attachment://"); ok {
		attachments, _ := values["attachments"].(map[string]any)
		if long, ok := attachments[key].(string); ok {
			return long
		}
	}
	return value
}

// decodedCell returns the list in a cell of CSV that has JSON; any other cell is a text.
func decodedCell(cell string) any {
	var list []any
	if strings.HasPrefix(cell, "[") && json.Unmarshal([]byte(cell), &list) == nil && len(list) > 0 {
		return list
	}
	return cell
}
