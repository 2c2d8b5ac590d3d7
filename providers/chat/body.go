package chat

import (
	"maps"

	"github.com/evalfleet/evalfleet/providers"
)

// encode builds the body and names the request's fields that the model does not take. The request's own fields override
// those in Extra. Keys are sorted, so equal requests have equal bytes.
func (f Flavour) encode(
	req *providers.Request, caps providers.Capabilities, format providers.JSON,
) (body map[string]any, dropped []string) {
	body = make(map[string]any, len(req.Extra)+8)
	maps.Copy(body, req.Extra)
	delete(body, "stream") // the answer is read as one JSON object
	body["model"] = req.Model
	addMessages(body, req, caps)
	if req.MaxOutputTokens > 0 {
		body[f.MaxTokensField] = req.MaxOutputTokens
	}
	effort, refused := f.addReasoning(body, req, caps)
	if refused {
		dropped = append(dropped, "reasoning_effort")
	}
	if req.Temperature != nil {
		if caps.TakesTemperatureAt(effort) {
			body["temperature"] = *req.Temperature
		} else {
			delete(body, "temperature")
			dropped = append(dropped, "temperature")
		}
	}

	if asked := responseFormat(format, req.Schema, caps); asked != nil {
		body["response_format"] = asked
		if f.RequireParameters {
			body["provider"] = requireParameters(req.Extra["provider"])
		}
	}

	if req.Search {
		f.addSearch(body, caps.Search)
	}
	if req.LogProbs {
		body["logprobs"] = true
		if _, fewer := body["top_logprobs"]; !fewer { // Extra may ask for as many as the endpoint gives
			body["top_logprobs"] = providers.TopLogProbs
		}
	}
	return body, dropped
}

// addMessages adds the messages, and what the provider should cache of them. Extra may ask for caching in another way,
// which then holds.
func addMessages(body map[string]any, req *providers.Request, caps providers.Capabilities) {
	providers.AddCaching(body, req, caps)
	breaks := req.Breaks(caps)
	messages := make([]any, len(req.Messages))
	for i, m := range req.Messages {
		if messages[i] = m; len(m.Images) > 0 || breaks && req.Keeps(i) {
			messages[i] = map[string]any{"role": m.Role, "content": providers.MessageParts(req, i, breaks, "text", image)}
		}
	}
	body["messages"] = messages
}

// image returns the part of a message that is an image.
func image(i *providers.Image) any {
	address := map[string]any{"url": i.DataURI()}
	if i.Detail != "" {
		address["detail"] = i.Detail
	}
	return map[string]any{"type": "image_url", "image_url": address}
}

// continues turns a body into a request to continue a text, for which the bound on the output has its older name.
func continues(body map[string]any, req *providers.Request) {
	text := ""
	for _, m := range req.Messages {
		text += m.Content
	}
	body["prompt"] = text
	delete(body, "messages")
	if req.MaxOutputTokens > 0 {
		delete(body, maxCompletionTokens)
		body[maxTokens] = req.MaxOutputTokens
	}
}

// addReasoning asks for the effort in the endpoint's style and returns it.
func (f Flavour) addReasoning(body map[string]any, req *providers.Request, caps providers.Capabilities) (effort string, refused bool) {
	effort, refused = caps.Effort(req)
	switch {
	case f.Effort == EffortAbsent:
		return "", req.ReasoningEffort != ""
	case f.Effort == EffortObject && effort != "":
		body["reasoning"] = map[string]any{"effort": effort}
	case f.Effort == EffortObject && req.Reason && !caps.TakesNoReasoning():
		body["reasoning"] = map[string]any{"enabled": true}
	case effort != "":
		body["reasoning_effort"] = effort
	}
	return effort, refused
}

func (f Flavour) addSearch(body map[string]any, name string) {
	if f.Search == SearchTool {
		body["tools"] = providers.WithTool(
			body["tools"], map[string]any{"type": name}, func(given map[string]any) bool { return given["type"] == name },
		)
		return
	}
	if _, set := body[name]; !set { // Extra may set it in more detail
		body[name] = map[string]any{}
	}
}

// responseFormat returns the body's response_format; nil: none.
func responseFormat(j providers.JSON, schema *providers.Schema, caps providers.Capabilities) any {
	switch {
	case schema == nil:
		return nil
	case j == providers.JSONSchema:
		return map[string]any{
			"type":        "json_schema",
			"json_schema": map[string]any{"name": schema.Name, "schema": caps.SchemaToSend(schema), "strict": !schema.Open},
		}
	case j == providers.JSONObject:
		return map[string]any{"type": "json_object"}
	}
	return nil
}

// requireParameters adds the requirement to support all parameters to the routing in the request's Extra.
func requireParameters(routing any) map[string]any {
	required := map[string]any{}
	if given, ok := routing.(map[string]any); ok {
		maps.Copy(required, given)
	}
	required["require_parameters"] = true
	return required
}
