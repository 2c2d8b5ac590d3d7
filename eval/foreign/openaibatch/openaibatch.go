// Package openaibatch reads and writes files in OpenAI's Batch format: one request on each line, for a chat
// completion or a response, and their results.
//
// It opens no files, and does not know where in a file a line is. Package config reads and checks requests; results
// stores the files of results.
package openaibatch

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/foreign/internal/wire"
)

// The endpoints that a line can contain as url.
const (
	Chat      = "/v1/chat/completions"
	Responses = "/v1/responses"
)

// Providers maps each endpoint to the provider that serves it unless another one is named.
var Providers = map[string]string{Chat: "openai-chat", Responses: "openai"}

// Read parses the prompt of a line. Errors are written for the author of the prompt.
func Read(line string) (eval.Conversation, error) {
	var row struct {
		URL  string `json:"url"`
		Body struct {
			Messages     []json.RawMessage `json:"messages"`
			Input        json.RawMessage   `json:"input"`
			Instructions string            `json:"instructions"`
		} `json:"body"`
	}
	if err := json.Unmarshal([]byte(line), &row); err != nil {
		return eval.Conversation{}, fmt.Errorf("the line cannot be read: %w", err)
	}
	if row.URL == Chat {
		if len(row.Body.Messages) == 0 {
			return eval.Conversation{}, fmt.Errorf("body has no messages")
		}
		return wire.Messages("messages", row.Body.Messages, "", false)
	}
	var c eval.Conversation
	var items []json.RawMessage
	var err error
	switch wire.Kind(row.Body.Input) {
	case '"':
		var text string
		if text, err = wire.Text(row.Body.Input); err == nil {
			c.Turns = [][]eval.Message{{{Role: "user", Content: text}}}
		}
	case '[':
		if err = json.Unmarshal(row.Body.Input, &items); err == nil && len(items) > 0 {
			c, err = wire.Messages("input", items, "", false)
		}
	}

	switch {
	case err != nil:
		return eval.Conversation{}, err
	case c.Turns == nil:
		return eval.Conversation{}, fmt.Errorf("body has no input: want a text or a list of messages")
	case row.Body.Instructions != "":
		c.Turns[0] = slices.Insert(c.Turns[0], 0, eval.Message{Role: "system", Content: row.Body.Instructions})
	}

	return c, nil
}

// URL returns the endpoint that a line was written for.
func URL(line string) (string, error) {
	var row struct {
		URL string `json:"url"`
	}
	err := json.Unmarshal([]byte(line), &row)
	return row.URL, err
}

// Judge returns the model that answers a line at a provider, with its settings.
func Judge(provider, model string, settings map[string]any) eval.Judge {
	m := eval.Judge{Provider: provider, Model: model}
	if m.Name = m.Target(); len(settings) > 0 {
		m.Overrides = settings
		m.Name += " " + string(wire.Encode(settings))
	}
	return m
}

// Settings returns the parameters of a line's body as settings of a model (eval.Judge.Overrides). The line was
// written for url; the model's endpoint speaks dialect. If that is the dialect of url, all parameters are kept
// unchanged; otherwise those with an equivalent are translated. dropped holds the sorted names of the others.
// Settings does not change body.
func Settings(url, dialect string, body map[string]any) (settings map[string]any, dropped []string) {
	settings = map[string]any{}
	spoken, same := words[dialect], dialects[url] == dialect
	for _, name := range slices.Sorted(maps.Keys(body)) {
		value := body[name]
		switch name {
		case "model", "messages", "input", "instructions", "stream": // taken from elsewhere
			continue
		case "max_tokens", "max_completion_tokens", "max_output_tokens":
			settings[wire.MaxTokens] = value
			continue
		case "temperature", "reasoning_effort":
			settings[name] = value
			continue
		case "reasoning":
			if effort, ok := value.(map[string]any); ok && len(effort) == 1 && effort["effort"] != nil {
				settings["reasoning_effort"] = effort["effort"]
				continue
			}
		}
		word, known := spoken.names[name]
		switch {
		case same:
			settings[name] = value
		case !known:
			dropped = append(dropped, name)
		default:
			wire.Put(settings, spoken.within, word, listed(word, value))
		}
	}

	return settings, dropped
}

// dialects maps each endpoint to its dialect.
var dialects = map[string]string{Chat: "chat", Responses: "responses"}

// words maps each dialect to its names for the parameters of OpenAI. within is the object of a request that contains
// them; if it is empty, that is the request itself.
var words = map[string]struct {
	within string
	names  map[string]string
}{
	"chat":      {"", map[string]string{"top_p": "top_p", "user": "user"}},
	"responses": {"", map[string]string{"top_p": "top_p", "user": "user"}},
	"messages":  {"", map[string]string{"top_p": "top_p", "stop": "stop_sequences"}},
	"generate": {"generationConfig", map[string]string{
		"top_p": "topP", "stop": "stopSequences", "seed": "seed", "n": "candidateCount",
		"presence_penalty": "presencePenalty", "frequency_penalty": "frequencyPenalty",
	}},
	"ollama": {"options", map[string]string{
		"top_p": "top_p", "stop": "stop", "seed": "seed",
		"presence_penalty": "presence_penalty", "frequency_penalty": "frequency_penalty",
	}},
}

// listed wraps a single stop text in a list, if the parameter must be a list in the other dialect.
func listed(word string, value any) any {
	if text, ok := value.(string); ok && (word == "stop_sequences" || word == "stopSequences" || word == "stop") {
		return []any{text}
	}
	return value
}
