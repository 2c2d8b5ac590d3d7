package generate

import (
	"maps"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
)

type object = map[string]any

// encode builds the body and names the request's fields that the model does not take. The request's own fields override
// those in Extra, even inside generationConfig. Keys are sorted, so equal requests have equal bytes.
func encode(req *providers.Request, caps providers.Capabilities, format providers.JSON) (body object, dropped []string) {
	body = make(object, len(req.Extra)+4)
	maps.Copy(body, req.Extra)
	delete(body, "generationConfig") // put together below
	system, contents := turns(req)
	if len(system) > 0 {
		body["systemInstruction"] = object{"parts": system}
	}
	body["contents"] = contents
	if req.Search {
		body["tools"] = providers.WithTool(req.Extra["tools"], object{caps.Search: object{}}, func(given object) bool {
			_, is := given[caps.Search]
			return is
		})
		if format != providers.JSONNone { // otherwise the search is silently left out
			body["toolConfig"] = plus(req.Extra["toolConfig"], "includeServerSideToolInvocations", true)
		}
	}

	config := object{}
	if given, ok := req.Extra["generationConfig"].(object); ok {
		maps.Copy(config, given)
	}
	if req.MaxOutputTokens > 0 {
		config["maxOutputTokens"] = req.MaxOutputTokens // thoughts count, too
	}
	if format != providers.JSONNone {
		config["responseMimeType"] = "application/json"
		if format == providers.JSONSchema && !req.Schema.Open { // an object without properties is refused
			config["responseJsonSchema"] = caps.SchemaToSend(req.Schema)
		}
	}
	if req.LogProbs {
		config["responseLogprobs"] = true
		if _, fewer := config["logprobs"]; !fewer { // Extra may ask for fewer
			config["logprobs"] = providers.TopLogProbs
		}
	}
	thinks, refused := addThinking(config, req, caps)
	if refused {
		dropped = append(dropped, "reasoning_effort")
	}
	if req.Temperature != nil {
		if caps.TakesTemperature(thinks) {
			config["temperature"] = *req.Temperature
		} else {
			delete(config, "temperature")
			dropped = append(dropped, "temperature")
		}
	}
	if len(config) > 0 {
		body["generationConfig"] = config
	}
	return body, dropped
}

// plus returns a copy of an object with one more field; if given is not an object, a new one.
func plus(given any, field string, value any) object {
	own := object{}
	if fields, ok := given.(object); ok {
		maps.Copy(own, fields)
	}
	own[field] = value
	return own
}

// turns returns the messages in Google's form: system messages are separate, and the role of an assistant is "model".
func turns(req *providers.Request) (system []any, contents []any) {
	contents = []any{}
	for i, m := range req.Messages {
		switch m.Role {
		case providers.System:
			system = append(system, object{"text": m.Content})
		case providers.Assistant:
			contents = append(contents, object{"role": "model", "parts": parts(req, i)})
		default:
			contents = append(contents, object{"role": "user", "parts": parts(req, i)})
		}
	}
	return system, contents
}

// parts returns a message as Google's parts: its text, divided at its images.
func parts(req *providers.Request, i int) (all []any) {
	if len(req.Messages[i].Images) == 0 {
		return []any{object{"text": req.Messages[i].Content}}
	}
	for _, part := range req.Parts(i) {
		if part.Image == nil {
			all = append(all, object{"text": part.Text})
			continue
		}
		all = append(all, object{"inlineData": object{"mimeType": part.Image.Type, "data": part.Image.Data}})
	}
	return all
}

// budgets maps efforts to tokens of thinking, within the range that every model with a budget accepts. The values are
// Google's own for OpenAI's words; "xhigh" and "max" get the most that all of these models accept. Without an effort,
// -1 leaves the number to the model.
var budgets = map[string]int{"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}

// levels are the efforts that models with levels accept.
var levels = []string{"minimal", "low", "medium", "high"}

// addThinking requests the effort in the model's way: a number of tokens or a level, never both, which is an error. An
// unknown model gets a number, which newer models accept, too.
func addThinking(config object, req *providers.Request, caps providers.Capabilities) (thinks, refused bool) {
	effort, refused := caps.Effort(req)
	thinking := object{}
	switch {
	case caps.TakesNoReasoning():
		return false, refused
	case caps.Reasoning == providers.ReasoningLevel:
		if slices.Contains(levels, effort) {
			thinking["thinkingLevel"] = strings.ToUpper(effort)
		} else if effort != "" {
			effort, refused = "", true
		}
	case req.Reason && (req.ReasoningEffort == "" || refused):
		thinking["thinkingBudget"] = -1
	case effort != "":
		thinking["thinkingBudget"] = budgets[effort]
	}

	if req.Reason {
		thinking["includeThoughts"] = true
	}
	if len(thinking) > 0 {
		config["thinkingConfig"] = thinking
	}
	return effort != "none", refused
}
