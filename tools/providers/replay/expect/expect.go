// Package expect determines what an answer of a provider says, from its recorded body alone. It shares no code with the
// dialects, so that an error on either side shows as a difference. It walks plain JSON values, and computes counts from
// other fields if the vendor offers a choice (for example, output tokens from the total).
package expect

import (
	"encoding/json"
	"slices"
	"strings"
)

// Answer is what a correct reader extracts from a recorded answer.
type Answer struct {
	// Classes are the possible values of providers.Class for the failure; nil: the answer is good.
	Classes []string
	Finish  string // stop, truncated or refused; only for a good answer
	Text    string // if Finish is stop or truncated
	// Counts of tokens, if the answer has a usage (Counted).
	Counted                          bool
	Input, Output, Cached, Reasoning int64
	Searches                         int
	Pages                            int // different addresses that the answer cites or was given
	Tier                             string
	CostUSD                          *float64

	cited map[string]bool
}

// cite counts a page once.
func (a *Answer) cite(address string) {
	if address == "" || a.cited[address] {
		return
	}
	if a.cited == nil {
		a.cited = map[string]bool{}
	}
	a.cited[address] = true
	a.Pages++
}

// Of reads an answer in a dialect (chat, responses, messages, generate, ollama). unfit is why the recording cannot be
// judged; empty: it can.
func Of(dialect string, status int, body []byte) (answer Answer, unfit string) {
	if status >= 400 {
		return Answer{Classes: failed(status, strings.ToLower(string(body)))}, ""
	}
	var root any
	if json.Unmarshal(body, &root) != nil {
		final := finalEvent(body)
		if dialect != "responses" || final == nil {
			return Answer{}, "a stream, or no JSON"
		}
		root = final
	}

	if _, isObject := root.(map[string]any); !isObject {
		return Answer{}, "not a JSON object"
	}

	switch dialect {
	case "chat":
		return chat(root)
	case "responses":
		return responses(root)
	case "messages":
		return messages(root)
	case "generate":
		return generate(root)
	case "ollama":
		return ollama(root)
	}

	return Answer{}, "a dialect without a reader"
}

// Body returns the whole answer as JSON: the body, or the response in the final event of a streamed one (Responses
// only).
func Body(body []byte) []byte {
	if final := finalEvent(body); final != nil {
		raw, err := json.Marshal(final)
		if err == nil {
			return raw
		}
	}
	return body
}

// finalEvent returns the response that ends a stream of the Responses API; nil: there is none.
func finalEvent(body []byte) any {
	for line := range strings.Lines(string(body)) {
		data, ok := strings.CutPrefix(line, "data:")
		var event map[string]any
		if !ok || json.Unmarshal([]byte(data), &event) != nil {
			continue
		}
		switch event["type"] {
		case "response.completed", "response.incomplete", "response.failed":
			return event["response"]
		}
	}
	return nil
}

// failed returns the classes that a failure may have, by its status and by words in its body, which is in lower case.
func failed(status int, body string) []string {
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(body, word) })
	}
	switch {
	case says(
		"context_length_exceeded", "prompt is too long", "prompt too long", "too_many_prompt_tokens",
		"maximum context length", "exceeds the maximum number of tokens",
	):
		return []string{"context_length"}
	case says("insufficient_quota", "credit balance is too low"):
		return []string{"quota_billing"}
	case says("content_filter", "responsibleaipolicyviolation", "invalid_prompt"):
		return []string{"refused"}
	case status == 401, says("incorrect api key", "api key not valid", "invalid_api_key", "api_key_invalid"):
		return []string{"auth"}
	case status == 404, says("model_not_found", "model_decommissioned"):
		return []string{"model_unavailable"}
	case status == 403:
		return []string{"auth", "model_unavailable"}
	case status == 402:
		return []string{"quota_billing"}
	case status == 413:
		return []string{"context_length"}
	case status == 429:
		return []string{"rate_limited", "quota_daily"}
	case status == 498, status == 503, status == 529:
		return []string{"overloaded"}
	case status == 408, status == 409, status >= 500:
		return []string{"transient"}
	}

	return []string{"bad_request"}
}

// empty are the classes of an answer without text, which may be retried.
var empty = []string{"transient"}

// at returns the value below keys (of objects) and indexes (of lists); nil: there is none.
func at(value any, path ...any) any {
	for _, step := range path {
		switch key := step.(type) {
		case string:
			object, _ := value.(map[string]any)
			value = object[key]
		case int:
			list, _ := value.([]any)
			if key >= len(list) {
				return nil
			}
			value = list[key]
		}
	}
	return value
}

func list(value any, path ...any) []any {
	found, _ := at(value, path...).([]any)
	return found
}

func text(value any, path ...any) string {
	found, _ := at(value, path...).(string)
	return found
}

func count(value any, path ...any) int64 {
	n, _ := at(value, path...).(float64)
	return int64(n)
}

func float(value any, path ...any) *float64 {
	if n, ok := at(value, path...).(float64); ok {
		return &n
	}
	return nil
}

// tier returns a service tier in lower case, or "" for the standard one.
func tier(name string) string {
	if slices.Contains([]string{"default", "standard", "auto", "on_demand", "null"}, strings.ToLower(name)) {
		return ""
	}
	return strings.ToLower(name)
}
