package wire

import (
	"bytes"
	"encoding/json"
)

// MaxTokens is our name for the bound on an answer's tokens.
const MaxTokens = "max_completion_tokens"

// Put sets a parameter of a request, in its object within where that is not empty.
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

// Encode returns v's JSON on one line, with <, > and & as they are.
func Encode(v any) json.RawMessage {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic("wire: encode " + err.Error()) // of what JSON holds
	}
	return bytes.TrimSpace(b.Bytes())
}
