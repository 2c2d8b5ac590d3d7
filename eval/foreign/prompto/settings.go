package prompto

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/evalfleet/evalfleet/eval/foreign/internal/wire"
)

// Settings returns the parameters of an experiment's line as the settings of its model (eval.Judge.Overrides). The
// token limit of the answer gets our name, whatever the line's API calls it. The other parameters are placed where
// the API's dialect expects them. If two names mean one setting, the later one in the alphabet wins. filter is the
// line's safety_filter; known is false if it is not one of SafetyFilters. Settings does not change parameters.
func Settings(api string, parameters map[string]any, filter string) (settings map[string]any, known bool) {
	settings = make(map[string]any, len(parameters))
	written, ok := apis[api]
	if !ok {
		written = apiWords{bound: "max_tokens"}
	}
	for _, name := range slices.Sorted(maps.Keys(parameters)) { // sorted, so that equal lines have equal settings
		value := parameters[name]
		if written.google {
			name = camel(name) // names may be in Python's form or in that of the API
		}
		switch name {
		case written.bound:
			settings[wire.MaxTokens] = value
		case "temperature":
			settings[name] = value
		default:
			wire.Put(settings, written.within, name, value)
		}
	}

	if !written.google {
		return settings, true
	}
	threshold, known := SafetyFilters[cmp.Or(filter, "some")]
	if !known {
		return settings, false
	}
	blocked := make([]any, len(harms))
	for i, harm := range harms {
		blocked[i] = map[string]any{"category": harm, "threshold": threshold}
	}
	settings["safetySettings"] = blocked
	return settings, true
}

// apiWords says how an API names and places parameters.
type apiWords struct {
	bound  string // name of the maximum number of an answer's tokens
	within string // the object of the request that contains them; empty: the request itself
	google bool   // its models are by Google
}

// apis holds the APIs whose names differ from OpenAI's.
var apis = map[string]apiWords{
	"gemini":   {"maxOutputTokens", "generationConfig", true},
	"vertexai": {"maxOutputTokens", "generationConfig", true},
	"google":   {"maxOutputTokens", "generationConfig", true},
	"ollama":   {"num_predict", "options", false},
}

// SafetyFilters maps the values of a line's safety_filter to the threshold from which Google blocks an answer. A line
// without one has "some".
var SafetyFilters = map[string]string{
	"none":    "BLOCK_NONE",
	"few":     "BLOCK_ONLY_HIGH",
	"some":    "BLOCK_MEDIUM_AND_ABOVE",
	"default": "BLOCK_MEDIUM_AND_ABOVE",
	"most":    "BLOCK_LOW_AND_ABOVE",
}

var harms = []string{
	"HARM_CATEGORY_HATE_SPEECH", "HARM_CATEGORY_HARASSMENT", "HARM_CATEGORY_SEXUALLY_EXPLICIT", "HARM_CATEGORY_DANGEROUS_CONTENT",
}

// camel converts a name from Python's form to that of the API, such as "candidate_count" to "candidateCount".
func camel(name string) string {
	var out strings.Builder
	upper := false
	for _, r := range name {
		switch {
		case r == '_':
			upper = true
		case upper:
			out.WriteRune(unicode.ToUpper(r))
			upper = false
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}
