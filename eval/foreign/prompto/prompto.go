// Package prompto reads, names and writes the files of prompto's experiments: lines of prompts, rates of queues,
// templates for judges, and lines with answers. What it writes is byte for byte what prompto writes, so that programs
// for prompto's files can read it.
//
// It opens no files, and does not know where in a file a line is. Package config reads and checks experiments;
// results stores their files.
package prompto

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/internal/wire"
)

// The defaults of an experiment.
const (
	DefaultMaxQueries  = 10 // prompts per minute in each of its queues
	DefaultMaxAttempts = 5  // calls for one prompt
)

// Read parses the prompt of a line. Errors are written for the author of the prompt.
func Read(line string) (eval.Conversation, error) {
	var row struct {
		API    string          `json:"api"`
		Mode   string          `json:"mode"`
		Prompt json.RawMessage `json:"prompt"`
	}
	if err := json.Unmarshal([]byte(line), &row); err != nil {
		return eval.Conversation{}, fmt.Errorf("the line is not a JSON object: %w", err)
	}
	c, err := turns(row.API, row.Prompt)
	if err != nil {
		return eval.Conversation{}, err
	}

	switch row.Mode {
	case "", "chat":
	case "completion":
		var text string
		if json.Unmarshal(row.Prompt, &text) != nil {
			return eval.Conversation{}, errors.New(`mode "completion" takes one text as its prompt: make it a string, or omit mode`)
		}
		c.Complete = true
	default:
		return eval.Conversation{}, fmt.Errorf("mode is %q: want chat or completion", row.Mode)
	}

	return c, nil
}

// systemFirst holds the APIs that accept a system message only as the first one.
var systemFirst = map[string]bool{"anthropic": true, "gemini": true, "vertexai": true}

// turns parses the turns of a prompt. A text is one turn, a list of texts has one turn for each, and a list of
// messages is one turn.
func turns(api string, raw json.RawMessage) (eval.Conversation, error) {
	var parts []json.RawMessage
	switch wire.Kind(raw) {
	case '"':
		text, err := wire.Text(raw)
		return eval.Conversation{Turns: [][]eval.Message{{{Role: "user", Content: text}}}}, err
	case '[':
		if err := json.Unmarshal(raw, &parts); err != nil {
			return eval.Conversation{}, err
		}
	}
	if len(parts) == 0 {
		return eval.Conversation{}, errors.New("prompt is empty or has an unknown form: want a text, a list of texts, or a list of messages")
	}
	if wire.Kind(parts[0]) == '"' {
		return conversation(parts)
	}
	if !systemFirst[api] {
		api = ""
	}
	return wire.Messages("prompt", parts, api, true)
}

func conversation(parts []json.RawMessage) (c eval.Conversation, err error) {
	for i, part := range parts {
		if wire.Kind(part) != '"' {
			return eval.Conversation{}, fmt.Errorf("prompt[%d] is not text like those before it: use only texts, or only messages", i)
		}
		text, err := wire.Text(part)
		if err != nil {
			return eval.Conversation{}, err
		}
		c.Turns = append(c.Turns, []eval.Message{{Role: "user", Content: text}})
	}
	return c, nil
}
