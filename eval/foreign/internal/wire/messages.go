// Package wire reads and writes the JSON that several external formats of prompts share: messages, settings, and
// objects whose keys keep their order. It does not know the formats.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
)

// roles maps the names of roles in all APIs to ours.
var roles = map[string]string{"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "model": "assistant"}

// Messages parses a list of messages, which form one turn. name is the list's name in errors. systemFirst names an
// API that accepts a system message only as the first one; if it is empty, system messages can be anywhere.
func Messages(name string, parts []json.RawMessage, systemFirst string) (eval.Conversation, error) {
	var turn []eval.Message
	for i, part := range parts {
		var m struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
			Parts   json.RawMessage `json:"parts"` // Google's name for content
		}
		at := fmt.Sprintf("%s[%d]", name, i)
		if Kind(part) != '{' || json.Unmarshal(part, &m) != nil || (m.Content == nil) == (m.Parts == nil) {
			return eval.Conversation{}, fmt.Errorf(
				`%s is not a message: want {"role": …, "content": …}, or for Google's models {"role": …, "parts": …}`, at,
			)
		}
		role, known := roles[m.Role]
		switch {
		case !known:
			return eval.Conversation{}, fmt.Errorf("%s has the role %q: want system, user or assistant (model for Google's models)", at, m.Role)
		case role == "system" && i > 0 && systemFirst != "":
			return eval.Conversation{}, fmt.Errorf("%s has the role system, which only the first message of %s can have", at, systemFirst)
		}
		text, err := contentOf(m.Content, m.Parts)
		if err != nil {
			return eval.Conversation{}, fmt.Errorf("%s: %w", at, err)
		}
		turn = append(turn, eval.Message{Role: role, Content: text})
	}

	if turn[len(turn)-1].Role == "system" {
		return eval.Conversation{}, fmt.Errorf("%s ends with a message of the role system: the last message must have the role user", name)
	}
	return eval.Conversation{Turns: [][]eval.Message{turn}}, nil
}

// contentOf returns the text of a message. It joins the texts of several parts with blank lines.
func contentOf(content, parts json.RawMessage) (string, error) {
	raw := content
	if raw == nil {
		raw = parts
	}
	list := []json.RawMessage{raw}
	if Kind(raw) == '[' {
		if err := json.Unmarshal(raw, &list); err != nil {
			return "", err
		}
	}
	texts := make([]string, len(list))
	for i, part := range list {
		var err error
		if texts[i], err = textPart(part); err != nil {
			return "", err
		}
	}
	return strings.Join(texts, "\n\n"), nil
}

func textPart(part json.RawMessage) (string, error) {
	if Kind(part) == '"' {
		return Text(part)
	}
	var typed struct {
		Type string          `json:"type"`
		Text json.RawMessage `json:"text"`
	}
	if Kind(part) != '{' || json.Unmarshal(part, &typed) != nil {
		return "", errors.New("its content is neither a text nor a list of texts")
	}
	switch typed.Type {
	case "", "text", "input_text", "output_text":
		if typed.Text == nil {
			return "", fmt.Errorf("a part of its content has no text")
		}
		return Text(typed.Text)
	}
	return "", fmt.Errorf("a part of its content has the type %q: only text is supported, not images, audio or video", typed.Type)
}

// Text returns the value of a JSON string.
func Text(raw json.RawMessage) (text string, err error) {
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", fmt.Errorf("no text: %w", err)
	}
	return text, nil
}

// Kind returns the first byte of a JSON value. That is a quotation mark for a text, [ for a list, { for an object,
// and 0 for an empty value.
func Kind(raw json.RawMessage) byte {
	if raw = bytes.TrimSpace(raw); len(raw) > 0 {
		return raw[0]
	}
	return 0
}
