package prompt

import (
	"cmp"
	"strings"
	"unicode"
)

// Settings are the parameters of an experiment's line as the settings of its model
// (eval.Judge.Overrides): the bound on the output, where there is one, has our word
// for it, whatever its api calls it, and the rest stands where the dialect of its api
// wants it. filter is the line's safety_filter; known is false for a word that is
// none of those of SafetyFilters. parameters are not changed.
func Settings(api string, parameters map[string]any, filter string) (settings map[string]any, known bool) {
	settings = make(map[string]any, len(parameters))
	switch api {
	case "gemini", "vertexai", "google":
		return google(settings, parameters, filter)
	case "ollama":
		options := map[string]any{}
		for name, value := range parameters {
			switch name {
			case "num_predict":
				settings[maxTokens] = value
			case "temperature":
				settings[name] = value
			default:
				options[name] = value
			}
		}
		if len(options) > 0 {
			settings["options"] = options
		}
	default:
		for name, value := range parameters {
			if name == "max_tokens" {
				name = maxTokens
			}
			settings[name] = value
		}
	}
	return settings, true
}

// maxTokens is our word for the bound on an answer's tokens.
const maxTokens = "max_completion_tokens"

// google divides parameters of Google's models, which may be written as Python or as
// the wire has them.
func google(settings, parameters map[string]any, filter string) (map[string]any, bool) {
	config := map[string]any{}
	for name, value := range parameters {
		switch name = camel(name); name {
		case "maxOutputTokens":
			settings[maxTokens] = value
		case "temperature":
			settings[name] = value
		default:
			config[name] = value
		}
	}
	if len(config) > 0 {
		settings["generationConfig"] = config
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

// SafetyFilters are the words of a line's safety_filter, each with the probability of
// harm from which Google blocks an answer. Without one it is "some".
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

// camel is a name of Python's in the form of the wire: "candidate_count" is
// "candidateCount".
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
