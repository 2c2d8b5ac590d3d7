package prompt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
)

// Written is a prompt as its author wrote it, parsed.
type Written struct {
	// Turns are the user's messages, one call each: every turn follows the answers to those
	// before it. There is at least one.
	Turns [][]Message
	// Complete asks for the continuation of the one turn's one text, and not for an
	// answer to it.
	Complete bool
}

// At are the messages of the turn that follows so many answers.
func (w Written) At(answers []string) []Message {
	var said []Message
	for i, answer := range answers {
		said = append(append(said, w.Turns[i]...), Message{Role: "assistant", Content: answer})
	}
	return append(said, w.Turns[len(answers)]...)
}

func written(p *eval.Prompts, row int, texts map[string]string) (Prompt, error) {
	of := p.Rows[row]
	line, ok := texts[of.Hash]
	if !ok {
		return Prompt{}, fmt.Errorf("text of %q (%s) is missing", of.ID, of.Hash)
	}
	w, err := ReadRow(p.Format, line)
	if err != nil {
		return Prompt{}, err
	}
	return Prompt{Messages: w.At(nil), Written: &w}, nil
}

// ReadRow reads the prompt of one of eval.Prompts' rows, whose text is line. The error tells
// the prompt's author what is wrong with it.
func ReadRow(format eval.PromptFormat, line string) (Written, error) {
	switch format {
	case eval.PromptsBatch:
		return batchRow(line)
	case eval.PromptsExperiment:
	default:
		return Written{}, fmt.Errorf("prompts of the format %q cannot be read here", format)
	}
	var row struct {
		API    string          `json:"api"`
		Mode   string          `json:"mode"`
		Prompt json.RawMessage `json:"prompt"`
	}
	if err := json.Unmarshal([]byte(line), &row); err != nil {
		return Written{}, fmt.Errorf("the line is no JSON object: %w", err)
	}
	w, err := turns(row.API, row.Prompt)
	if err != nil {
		return Written{}, err
	}
	switch row.Mode {
	case "", "chat":
	case "completion":
		var text string
		if json.Unmarshal(row.Prompt, &text) != nil {
			return Written{}, errors.New(`mode "completion" takes one text as its prompt: make it a string, or leave mode out`)
		}
		w.Complete = true
	default:
		return Written{}, fmt.Errorf("mode is %q: want chat or completion", row.Mode)
	}
	return w, nil
}

// turns are those of a prompt: a text is one turn, a list of texts is one turn each,
// a list of messages is one turn that ends a conversation.
func turns(api string, raw json.RawMessage) (Written, error) {
	var parts []json.RawMessage
	switch kind(raw) {
	case '"':
		text, err := textOf(raw)
		return Written{Turns: [][]Message{{{Role: "user", Content: text}}}}, err
	case '[':
		if err := json.Unmarshal(raw, &parts); err != nil {
			return Written{}, err
		}
	}
	if len(parts) == 0 {
		return Written{}, errors.New("prompt is empty or of no known form: want a text, a list of texts, or a list of messages")
	}
	if kind(parts[0]) == '"' {
		return said(parts)
	}
	return conversation("prompt", api, parts)
}

func said(parts []json.RawMessage) (w Written, err error) {
	for i, part := range parts {
		if kind(part) != '"' {
			return Written{}, fmt.Errorf("prompt[%d] is no text as those before it: turns are texts, or all are messages", i)
		}
		text, err := textOf(part)
		if err != nil {
			return Written{}, err
		}
		w.Turns = append(w.Turns, []Message{{Role: "user", Content: text}})
	}
	return w, nil
}

// systemFirst are the apis whose system message comes first, if at all.
var systemFirst = map[string]bool{"anthropic": true, "gemini": true, "vertexai": true}

// roles are the names of roles, in all apis.
var roles = map[string]string{"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "model": "assistant"}

func conversation(name, api string, parts []json.RawMessage) (Written, error) {
	var turn []Message
	for i, part := range parts {
		var m struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
			Parts   json.RawMessage `json:"parts"` // Google's word for it
		}
		at := fmt.Sprintf("%s[%d]", name, i)
		if kind(part) != '{' || json.Unmarshal(part, &m) != nil || (m.Content == nil) == (m.Parts == nil) {
			return Written{}, fmt.Errorf(`%s is no message: want {"role": …, "content": …}, or for Google's models {"role": …, "parts": …}`, at)
		}
		role, known := roles[m.Role]
		switch {
		case !known:
			return Written{}, fmt.Errorf("%s has the role %q: want system, user or assistant (model for Google's models)", at, m.Role)
		case role == "system" && i > 0 && systemFirst[api]:
			return Written{}, fmt.Errorf("%s is the system's: of %s only the first message can be", at, api)
		}
		text, err := contentOf(m.Content, m.Parts)
		if err != nil {
			return Written{}, fmt.Errorf("%s: %w", at, err)
		}
		turn = append(turn, Message{Role: role, Content: text})
	}
	if turn[len(turn)-1].Role == "system" {
		return Written{}, fmt.Errorf("%s ends with the system's message: the last message must be the user's", name)
	}
	return Written{Turns: [][]Message{turn}}, nil
}

// contentOf is what a message says: a text, or the texts of its parts, one to a
// paragraph.
func contentOf(content, parts json.RawMessage) (string, error) {
	raw := content
	if raw == nil {
		raw = parts
	}
	list := []json.RawMessage{raw}
	if kind(raw) == '[' {
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
	if kind(part) == '"' {
		return textOf(part)
	}
	var typed struct {
		Type string          `json:"type"`
		Text json.RawMessage `json:"text"`
	}
	if kind(part) != '{' || json.Unmarshal(part, &typed) != nil {
		return "", errors.New("its content is neither a text nor a list of texts")
	}
	switch typed.Type {
	case "", "text", "input_text", "output_text":
		if typed.Text == nil {
			return "", fmt.Errorf("a part of its content has no text")
		}
		return textOf(typed.Text)
	}
	return "", fmt.Errorf("a part of its content is of type %q: only texts are sent, no images, sounds or films", typed.Type)
}

func textOf(raw json.RawMessage) (text string, err error) {
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", fmt.Errorf("no text: %w", err)
	}
	return text, nil
}

// kind is the first byte of a value: '"' of a text, '[' of a list, '{' of an object,
// 0 where there is none.
func kind(raw json.RawMessage) byte {
	if raw = bytes.TrimSpace(raw); len(raw) > 0 {
		return raw[0]
	}
	return 0
}
