package ollama

import (
	"cmp"
	"maps"
	"slices"

	"github.com/evalfleet/evalfleet/providers"
)

type object = map[string]any

// encode builds the body and names the request's fields that the model does not take. The request's own fields override
// those in Extra, even inside options. Keys are sorted, so equal requests have equal bytes.
//
// The server is told not to truncate a prompt that does not fit, nor to drop its start while answering, which it does
// silently otherwise. Extra may override this.
func encode(req *providers.Request, caps providers.Capabilities, format providers.JSON) (body object, dropped []string) {
	body = make(object, len(req.Extra)+8)
	body["truncate"], body["shift"] = false, false
	maps.Copy(body, req.Extra)
	body["stream"] = false // the answer is read as one JSON object
	body["model"] = req.Model
	body["messages"] = turns(req.Messages)
	switch format {
	case providers.JSONSchema:
		body["format"] = caps.SchemaToSend(req.Schema)
	case providers.JSONObject:
		body["format"] = "json"
	}

	options := object{"num_ctx": window(req, caps)}
	if given, ok := req.Extra["options"].(object); ok {
		maps.Copy(options, given)
	}
	if req.MaxOutputTokens > 0 {
		options["num_predict"] = req.MaxOutputTokens // thoughts count, too
	}
	think, refused := thinking(req, caps)
	if think != nil {
		body["think"] = think
	}
	if refused {
		dropped = append(dropped, "reasoning_effort")
	}
	if req.Temperature != nil {
		if caps.TakesTemperature(think != false) {
			options["temperature"] = *req.Temperature
		} else {
			delete(options, "temperature")
			dropped = append(dropped, "temperature")
		}
	}

	body["options"] = options
	if req.LogProbs { // servers before 0.12.11 ignore it
		body["logprobs"] = true
		if _, fewer := body["top_logprobs"]; !fewer {
			body["top_logprobs"] = providers.TopLogProbs
		}
	}
	return body, dropped
}

// turns returns the messages with their images in Ollama's form: a list beside the text, which has to say itself where
// each belongs.
func turns(messages []providers.Message) []any {
	all := make([]any, len(messages))
	for i, m := range messages {
		if all[i] = m; len(m.Images) == 0 {
			continue
		}
		images := make([]string, len(m.Images))
		for k, image := range m.Images {
			images[k] = image.Data
		}
		all[i] = object{"role": m.Role, "content": m.Content, "images": images}
	}
	return all
}

const (
	// leastWindow is the default window of a server without much memory.
	leastWindow = 4096
	// unboundedRoom is the space reserved for an answer without a bound.
	unboundedRoom = 4096
	// roleTokens is the most tokens that a template adds around a message.
	roleTokens = 16
)

// window returns the context, in tokens, that the request needs: its prompt and its answer. A prompt counts one token
// for every three bytes, which exceeds the true number except for hashes. The server's default may be as small as 4,096
// whatever the model supports. A change makes the server reload the model, so there are few sizes, each twice the one
// before, up to the model's own.
func window(req *providers.Request, caps providers.Capabilities) int {
	need := cmp.Or(req.MaxOutputTokens, unboundedRoom)
	for _, m := range req.Messages {
		need += len(m.Content)/3 + roleTokens
		for _, image := range m.Images {
			need += int(caps.ImageTokens(image.Width, image.Height))
		}
	}
	size := leastWindow
	for size < need {
		size *= 2
	}
	if caps.ContextWindow > 0 {
		size = min(size, caps.ContextWindow)
	}
	return size
}

// levels are the efforts of models that can be told how much to think.
var levels = []string{"low", "medium", "high"}

// thinking returns the body's field think: whether the model thinks, or how much; nil: its default. refused means that
// the request's effort was not sent, or only as "true".
func thinking(req *providers.Request, caps providers.Capabilities) (think any, refused bool) {
	effort, refused := caps.Effort(req)
	switch {
	case caps.TakesNoReasoning():
		return nil, refused
	case effort == "none":
		return false, false
	case caps.Reasoning == providers.ReasoningEffort && slices.Contains(levels, effort):
		return effort, refused
	case req.Reason, effort != "" && caps.Reasoning != providers.ReasoningEffort:
		return true, req.ReasoningEffort != ""
	}
	return nil, refused || effort != ""
}
