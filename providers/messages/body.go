package messages

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
)

type object = map[string]any

const (
	// defaultMaxTokens is sent if neither the request nor the known facts about the model bound
	// the output; the dialect requires a bound, and every model takes this one.
	defaultMaxTokens = 4096
)

// compose returns the body, and the request's fields that the model does not take. The request's own fields override
// those in Extra, even inside output_config. Keys are sorted when encoded, so equal requests have equal bytes.
func compose(req *providers.Request, caps providers.Capabilities, format providers.JSON) (body object, dropped []string) {
	body = make(object, len(req.Extra)+8)
	maps.Copy(body, req.Extra)
	delete(body, "stream")               // the answer is read as one JSON object
	delete(body, providers.MaxToolCalls) // the tool contains it
	body["model"] = req.Model
	body["max_tokens"] = maxTokens(req, caps)
	addMessages(body, req, caps)
	if req.Search {
		search := object{"type": caps.Search, "name": searchTool}
		if n, told := req.ToldSearches(); told {
			search["max_uses"] = n
		}
		body["tools"] = providers.WithTool(req.Extra["tools"], search, func(given object) bool { return given["name"] == searchTool })
	}

	output := object{}
	if given, ok := req.Extra["output_config"].(object); ok {
		maps.Copy(output, given)
	}
	if format == providers.JSONSchema && !req.Schema.Open { // the dialect has no other way
		output["format"] = object{"type": "json_schema", "schema": caps.SchemaToSend(req.Schema)}
	}
	thinks, refused := addThinking(body, output, req, caps)
	if refused {
		dropped = append(dropped, "reasoning_effort")
	}
	if req.Temperature != nil {
		if !thinks && caps.TakesTemperature(false) { // no model takes one while thinking
			body["temperature"] = *req.Temperature
		} else {
			delete(body, "temperature")
			dropped = append(dropped, "temperature")
		}
	}
	if len(output) > 0 {
		body["output_config"] = output
	}
	return body, dropped
}

func maxTokens(req *providers.Request, caps providers.Capabilities) int {
	return cmp.Or(req.MaxOutputTokens, caps.MaxOutput, defaultMaxTokens)
}

// addMessages separates the system messages from the turns. What the provider should cache ends with a marked block.
// Extra may ask for caching in another way, which then holds.
func addMessages(body object, req *providers.Request, caps providers.Capabilities) {
	_, told := req.Extra["cache_control"]
	marks := caps.PromptCache == providers.PromptCacheMarks && !told
	turns := []any{}
	var said []string
	var system []object
	marked := false
	for i, m := range req.Messages {
		keeps := marks && req.Keeps(i)
		switch {
		case m.Role == providers.System:
			said = append(said, m.Content)
			marked = marked || keeps
			system = append(system, blocks(req, i, true)...)
		case keeps, len(m.Images) > 0:
			turns = append(turns, object{"role": m.Role, "content": blocks(req, i, marks)})
		default:
			turns = append(turns, m)
		}
	}

	switch {
	case marked:
		body["system"] = system
	case len(said) > 0:
		body["system"] = strings.Join(said, "\n\n")
	}
	body["messages"] = turns
}

// blocks returns a message as blocks of text and images. With marks, those at the end of a prefix to cache have a
// cache_control.
func blocks(req *providers.Request, i int, marks bool) (all []object) {
	for _, part := range req.Parts(i) {
		block := object{"type": "text", "text": part.Text}
		switch {
		case part.Image == nil:
		case part.Image.Data == "":
			block = object{"type": "image", "source": object{"type": "url", "url": part.Image.URL}}
		default:
			source := object{"type": "base64", "media_type": part.Image.Type, "data": part.Image.Data}
			block = object{"type": "image", "source": source}
		}
		if part.Keep && marks {
			block["cache_control"] = object{"type": "ephemeral"}
		}
		all = append(all, block)
	}
	return all
}

// budgets maps efforts to tokens of thinking, for models that take a number.
var budgets = map[string]int{"minimal": 1024, "low": 4096, "medium": 8192, "high": 16384, "xhigh": 32768, "max": 32768}

// leastBudget is the smallest budget that the dialect accepts.
const leastBudget = 1024

// words are the efforts accepted by models that decide themselves how much to think.
var words = []string{"low", "medium", "high", "xhigh", "max"}

// addThinking requests the effort in the model's way. An unknown model is assumed to decide itself how much to think,
// as all newer ones do.
func addThinking(body, output object, req *providers.Request, caps providers.Capabilities) (thinks, refused bool) {
	effort, refused := caps.Effort(req)
	switch {
	case caps.TakesNoReasoning():
		return false, refused
	case effort == "none":
		body["thinking"] = object{"type": "disabled"}
		return false, false
	case caps.Reasoning == providers.ReasoningBudget:
		return addBudget(body, req, caps, effort, refused)
	}

	if effort = req.ReasoningEffort; effort != "" && (refused || !slices.Contains(words, effort)) {
		effort, refused = "", true
	}
	if effort == "" && !req.Reason {
		return false, refused
	}
	thinking := object{"type": "adaptive"}
	if req.Reason {
		thinking["display"] = "summarized" // some models hide it otherwise
	}
	body["thinking"] = thinking
	if effort != "" {
		output["effort"] = effort
	}
	return true, refused
}

// addBudget sets the budget for thinking, and leaves at least a fifth of max_tokens, which includes thinking, to the
// answer. If the rest is less than the minimum budget, the model does not think.
func addBudget(body object, req *providers.Request, caps providers.Capabilities, effort string, refused bool) (bool, bool) {
	if effort == "" && req.Reason {
		effort = "medium"
	}
	if effort == "" {
		return false, refused
	}
	budget := min(budgets[effort], maxTokens(req, caps)*4/5)
	if budget < leastBudget {
		return false, refused || req.ReasoningEffort != ""
	}
	body["thinking"] = object{"type": "enabled", "budget_tokens": budget}
	return true, refused
}
