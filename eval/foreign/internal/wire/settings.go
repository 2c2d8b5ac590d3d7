package wire

import (
	"bytes"
	"encoding/json"
)

// MaxTokens is our name for the maximum number of tokens of an answer.
const MaxTokens = "max_completion_tokens"

// Put sets a parameter of a request. If within is not empty, it sets the parameter in the object of that name.
func Put(settings map[string]any, within, name string, value any) {
	if within == "" {
		settings[name] = value
		return
	}
	inner, _ := settings[within].(map[string]any)
	if inner == nil {
		inner = map[string]any{}
		settings[within] = inner
	}
	inner[name] = value
}

// Encode returns the JSON of v on one line, without escaping <, > and &.
func Encode(v any) json.RawMessage {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic("wire: encode " + err.Error()) // callers pass only what JSON can represent
	}
	return bytes.TrimSpace(b.Bytes())
}
