package responses

import (
	"cmp"
	"maps"
	"regexp"

	"github.com/evalfleet/evalfleet/providers"
)

// way is the form in which a request is currently sent to its model.
type way struct {
	background bool
	bare       bool           // without fields that only request evidence
	format     providers.JSON // of its schema
}

// encode builds the body and names the request's fields that the model does not take. The request's own fields override
// those in Extra. Keys are sorted, so equal requests have equal bytes.
func (w way) encode(req *providers.Request, caps providers.Capabilities) (body map[string]any, dropped []string) {
	body = make(map[string]any, len(req.Extra)+12)
	maps.Copy(body, req.Extra)
	delete(body, "stream") // the answer is read as one JSON object
	delete(body, "background")
	body["model"] = req.Model
	body["truncation"] = "disabled" // input that does not fit is an error, never truncated silently
	body["store"] = w.background    // a job is polled later, a plain answer is not
	if w.background {
		body["background"] = true
	}
	addMessages(body, req, caps)
	if req.MaxOutputTokens > 0 {
		body["max_output_tokens"] = req.MaxOutputTokens
	}
	effort, refused := caps.Effort(req)
	if effort == "minimal" && req.Search { // the API refuses to search with minimal effort
		effort, refused = "", true
	}
	if refused {
		dropped = append(dropped, "reasoning_effort")
	}
	if effort != "" {
		object(body, "reasoning")["effort"] = effort
	}
	if req.Reason && !caps.TakesNoReasoning() && !w.bare {
		object(body, "reasoning")["summary"] = "auto"
	}
	if req.Temperature != nil {
		if caps.TakesTemperatureAt(effort) {
			body["temperature"] = *req.Temperature
		} else {
			delete(body, "temperature")
			dropped = append(dropped, "temperature")
		}
	}

	w.addFormat(body, req.Schema, caps)
	w.addSearch(body, req, caps.Search)
	if req.LogProbs {
		addLogProbs(body)
	}
	return body, dropped
}

// addMessages converts the system messages at the beginning of the request to instructions; later ones keep their
// place. It also adds what the provider should cache, which cannot end within instructions. Extra may ask for caching in
// another way, which then holds.
func addMessages(body map[string]any, req *providers.Request, caps providers.Capabilities) {
	instructions, first := "", 0
	for first < len(req.Messages) && req.Messages[first].Role == providers.System {
		if instructions != "" {
			instructions += "\n\n"
		}
		instructions += req.Messages[first].Content
		first++
	}
	if instructions != "" {
		body["instructions"] = instructions
	}

	providers.AddCaching(body, req, caps)
	breaks := req.Breaks(caps)
	input := []any{} // an empty list, not null
	for i, m := range req.Messages {
		switch {
		case i < first:
		case m.Role != providers.Assistant && (len(m.Images) > 0 || breaks && req.Keeps(i)):
			input = append(input, map[string]any{"role": m.Role, "content": providers.MessageParts(req, i, breaks, "input_text", image)})
		default:
			input = append(input, m)
		}
	}
	body["input"] = input
}

// image returns the part of a message that is an image. Its detail is required, unlike in chat completions.
func image(i *providers.Image) any {
	return map[string]any{"type": "input_image", "image_url": i.DataURI(), "detail": cmp.Or(i.Detail, "auto")}
}

func (w way) addFormat(body map[string]any, schema *providers.Schema, caps providers.Capabilities) {
	switch {
	case schema == nil:
	case w.format == providers.JSONSchema:
		object(body, "text")["format"] = map[string]any{
			"type": "json_schema", "name": schema.Name, "schema": caps.SchemaToSend(schema), "strict": !schema.Open,
		}
	case w.format == providers.JSONObject:
		object(body, "text")["format"] = map[string]any{"type": "json_object"}
	}
}

func (w way) addSearch(body map[string]any, req *providers.Request, tool string) {
	if !req.Search {
		return
	}
	body["tools"] = providers.WithTool(
		req.Extra["tools"], map[string]any{"type": tool}, func(given map[string]any) bool { return given["type"] == tool },
	)
	if !w.bare {
		body["tool_choice"] = "required"
		if n, told := req.ToldSearches(); told && !w.background { // a job searches as long as it takes
			body[providers.MaxToolCalls] = n
		}
		body["include"] = []string{"web_search_call.action.sources"}
	}
}

// addLogProbs asks for log probabilities. Extra may ask for fewer alternatives.
func addLogProbs(body map[string]any) {
	included, _ := body["include"].([]string)
	body["include"] = append(included, "message.output_text.logprobs")
	if _, fewer := body["top_logprobs"]; !fewer {
		body["top_logprobs"] = providers.TopLogProbs
	}
}

// object returns the body's object with a name, for adding fields: a copy of Extra's object, or a new one.
func object(body map[string]any, name string) map[string]any {
	own := map[string]any{}
	if given, ok := body[name].(map[string]any); ok {
		maps.Copy(own, given)
	}
	body[name] = own
	return own
}

var aboutEvidence = regexp.MustCompile(`(?i)reasoning[. ]summar|tool[_ ]choice|max_tool_calls|'include'|\(include\b|action\.sources`)

// refusesEvidence reports whether an endpoint refused a request because of fields that only request evidence. Summaries
// of reasoning are for organisations that OpenAI has verified, not every model can be told to search, and not every
// endpoint lists sources. The models reason and search all the same.
func refusesEvidence(failed *providers.Error) bool {
	return failed.Class == providers.BadRequest && aboutEvidence.MatchString(failed.Message)
}
