package prompt

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// The endpoints that lines of OpenAI's Batch files name as url.
const (
	BatchChat      = "/v1/chat/completions"
	BatchResponses = "/v1/responses"
)

// batchRow reads the prompt of a line of a Batch file.
func batchRow(line string) (Written, error) {
	var row struct {
		URL  string `json:"url"`
		Body struct {
			Messages     []json.RawMessage `json:"messages"`
			Input        json.RawMessage   `json:"input"`
			Instructions string            `json:"instructions"`
		} `json:"body"`
	}
	if err := json.Unmarshal([]byte(line), &row); err != nil {
		return Written{}, fmt.Errorf("the line cannot be read: %w", err)
	}
	if row.URL == BatchChat {
		if len(row.Body.Messages) == 0 {
			return Written{}, fmt.Errorf("body has no messages")
		}
		return conversation("messages", "", row.Body.Messages)
	}
	var w Written
	var items []json.RawMessage
	var err error
	switch kind(row.Body.Input) {
	case '"':
		var text string
		if text, err = textOf(row.Body.Input); err == nil {
			w.Turns = [][]Message{{{Role: "user", Content: text}}}
		}
	case '[':
		if err = json.Unmarshal(row.Body.Input, &items); err == nil && len(items) > 0 {
			w, err = conversation("input", "", items)
		}
	}
	switch {
	case err != nil:
		return Written{}, err
	case w.Turns == nil:
		return Written{}, fmt.Errorf("body has no input: want a text or a list of messages")
	case row.Body.Instructions != "":
		w.Turns[0] = slices.Insert(w.Turns[0], 0, Message{Role: "system", Content: row.Body.Instructions})
	}
	return w, nil
}

// BatchSettings are the parameters of the body of a Batch file's line, written for url, as the
// settings of a model (eval.Judge.Overrides) whose endpoint speaks dialect. If that is the
// dialect of url, all are kept unchanged; otherwise those with an equivalent are translated.
// The names of dropped parameters are sorted. body is not changed.
func BatchSettings(url, dialect string, body map[string]any) (settings map[string]any, dropped []string) {
	settings = map[string]any{}
	words, same := batchWords[dialect], batchDialect[url] == dialect
	for _, name := range slices.Sorted(maps.Keys(body)) {
		value := body[name]
		switch name {
		case "model", "messages", "input", "instructions", "stream": // said elsewhere
			continue
		case "max_tokens", "max_completion_tokens", "max_output_tokens":
			settings[maxTokens] = value
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
		word, known := words.names[name]
		switch {
		case same:
			settings[name] = value
		case !known:
			dropped = append(dropped, name)
		default:
			put(settings, words.within, word, listed(word, value))
		}
	}
	return settings, dropped
}

// batchDialect is the dialect of a Batch file's endpoint.
var batchDialect = map[string]string{BatchChat: "chat", BatchResponses: "responses"}

// batchWords are the words of dialects for OpenAI's parameters, and the object of the
// request that contains them; empty: the request itself.
var batchWords = map[string]struct {
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

func put(settings map[string]any, within, word string, value any) {
	if within == "" {
		settings[word] = value
		return
	}
	inner, _ := settings[within].(map[string]any)
	if inner == nil {
		inner = map[string]any{}
		settings[within] = inner
	}
	inner[word] = value
}

// listed is a single text at which to stop as the list that other dialects want.
func listed(word string, value any) any {
	if text, ok := value.(string); ok && (word == "stop_sequences" || word == "stopSequences" || word == "stop") {
		return []any{text}
	}
	return value
}
