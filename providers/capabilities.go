package providers

import (
	"fmt"
	"slices"
)

// Capabilities describes the known abilities of a model on an endpoint. The zero value knows nothing and makes a
// dialect conservative: it sends fields that every model accepts, and omits or probes the rest.
type Capabilities struct {
	// JSON is the way to ask for a schema.
	JSON JSON `json:"json,omitempty"`
	// JSONWithSearch: a schema and the provider's search may be in one request. For other models, a dialect answers
	// such a request with an error of class BadRequest and sends nothing; two calls are needed.
	JSONWithSearch bool `json:"json_with_search,omitempty"`
	// SchemaBounds: the endpoint accepts minimum and maximum in a schema. Otherwise SchemaToSend puts them into
	// descriptions.
	SchemaBounds bool `json:"schema_bounds,omitempty"`
	// Search is the provider's own search, as the dialect names it (the type of a
	// tool, the name of a field); empty: none.
	Search string `json:"search,omitempty"`
	// Reasoning is how the model's reasoning is controlled.
	Reasoning ReasoningControl `json:"reasoning,omitempty"`
	// Efforts are those of the package's Efforts that the model accepts; nil: all of them. Another effort is not sent,
	// and named in Result.Dropped.
	Efforts []string `json:"efforts,omitempty"`
	// Sampling says when a temperature may be sent. If it may not, it is named in Result.Dropped.
	Sampling Sampling `json:"sampling,omitempty"`
	// PromptCache names the request fields that say which prefixes of prompts the provider caches.
	PromptCache PromptCache `json:"prompt_cache,omitempty"`
	// CacheMinimum is how many tokens a beginning must have to be cached; 0: not known.
	CacheMinimum int `json:"cache_minimum,omitempty"`
	// Background: a call is a job that runs at the provider without a connection, for up to hours, and that has to
	// search: deep research.
	Background bool `json:"background,omitempty"`
	// Batch: the endpoint answers calls of the model in batches, and its provider implements Batches.
	Batch bool `json:"batch,omitempty"`
	// ContextWindow and MaxOutput are tokens; 0: not known.
	ContextWindow int `json:"context_window,omitempty"`
	MaxOutput     int `json:"max_output,omitempty"`
	// Images says whether the model takes images, and ImageCount how their tokens are counted.
	Images     Sight      `json:"images,omitempty"`
	ImageCount ImageCount `json:"image_count,omitempty"`
	// LogProbs says whether the model gives log probabilities.
	LogProbs LogProbs `json:"log_probs,omitempty"`
}

// CapabilitiesOf returns the capabilities of a model by its name.
type CapabilitiesOf func(model string) Capabilities

// Check returns an error of class BadRequest for a request that this model cannot answer in one call: it wants a search
// that the model does not have, or a schema together with a search, or log probabilities that it is known not to give, or
// shows images to a model that is known not to see.
// A dialect then sends nothing.
func (c Capabilities) Check(req *Request) error {
	switch {
	case c.Images == Blind && req.HasImages():
		return &Error{Class: BadRequest, Message: req.Model + " takes no images"}
	case c.LogProbs == LogProbsNone && req.LogProbs:
		return &Error{Class: BadRequest, Message: req.Model + " gives no log probabilities"}
	case req.Search && c.Search == "":
		return &Error{Class: BadRequest, Message: fmt.Sprintf("%s has no web search here", req.Model)}
	case req.Search && req.Schema != nil && !c.JSONWithSearch:
		return &Error{Class: BadRequest, Message: req.Model + " does not accept a schema with a web search; that needs two calls"}
	}
	return nil
}

// TwoCalls reports whether the JSON of an answer needs a separate call, of another model. That is so with a search if
// one call cannot do both, or with always if the model has no structured output. Without always, a model that has none
// and does not search is asked for JSON by the prompt alone.
func (c Capabilities) TwoCalls(search, always bool) bool {
	search = search || c.Background
	if search && !c.JSONWithSearch {
		return true
	}
	return c.JSON == JSONNone && (search || always)
}

// Effort returns the effort to send for req; empty: none. A request for reasoning without an effort gets "medium" if
// the model takes efforts, or else the lowest that it takes: some models do not reason by default. A model with levels
// keeps its own default, which may be higher. refused means that the model does not take the effort in req.
func (c Capabilities) Effort(req *Request) (effort string, refused bool) {
	takes := func(effort string) bool {
		return !c.TakesNoReasoning() && (c.Efforts == nil || slices.Contains(c.Efforts, effort))
	}
	switch told := c.Reasoning != ReasoningUnknown && !c.TakesNoReasoning(); {
	case req.ReasoningEffort != "" && takes(req.ReasoningEffort):
		return req.ReasoningEffort, false
	case req.ReasoningEffort != "":
		return "", true
	case !req.Reason || !told, c.Reasoning == ReasoningLevel: // models with levels reason by default
		return "", false
	case takes("medium"):
		return "medium", false
	}
	for _, effort := range Efforts[1:] { // the first is none
		if takes(effort) {
			return effort, false
		}
	}
	return "", false
}

// TakesTemperature reports whether a temperature may be sent. reasons says whether the model reasons over this request,
// also by default.
func (c Capabilities) TakesTemperature(reasons bool) bool {
	switch c.Sampling {
	case SamplingWithoutEffort:
		return !reasons
	case SamplingNever:
		return false
	case SamplingWithoutReasoning:
		return !reasons || c.Reasoning == ReasoningNone
	}
	return true
}

// TakesNoReasoning reports whether nothing about reasoning may be sent.
func (c Capabilities) TakesNoReasoning() bool {
	return c.Reasoning == ReasoningNone || c.Reasoning == ReasoningSilent
}

// TakesTemperatureAt reports whether a temperature may be sent together with an effort; empty: the model's own default.
func (c Capabilities) TakesTemperatureAt(effort string) bool {
	return c.TakesTemperature(effort != "none" && (effort != "" || c.Sampling != SamplingWithoutEffort))
}

// PromptCache is a way of telling a provider what to cache.
type PromptCache string

// The ways. Google caches what repeats without being told.
const (
	PromptCacheUntold      PromptCache = ""            // nothing is sent
	PromptCacheMarks       PromptCache = "marks"       // cache_control, at the end of a beginning to keep (Anthropic)
	PromptCacheKey         PromptCache = "key"         // prompt_cache_key, by which OpenAI chooses one of its caches
	PromptCacheBreakpoints PromptCache = "breakpoints" // also prompt_cache_breakpoint, since gpt-5.6, which charges for writing
)

// JSON is a way of asking for structured output.
type JSON string

// The ways. For all but JSONSchema the prompt must contain the schema's requirements; for JSONSchema it may.
const (
	JSONAuto   JSON = ""       // JSONSchema until the endpoint refuses it, then JSONObject, then JSONNone
	JSONSchema JSON = "schema" // the schema itself, in strict mode
	JSONObject JSON = "object" // any JSON object
	JSONNone   JSON = "none"   // the prompt alone
)

// ReasoningControl is the way to ask for a model's reasoning.
type ReasoningControl string

// The ways. Which of them exist depends on the dialect.
const (
	ReasoningUnknown  ReasoningControl = ""         // an effort is sent if the request has one
	ReasoningNone     ReasoningControl = "none"     // the model does not reason: nothing is sent
	ReasoningSilent   ReasoningControl = "silent"   // nothing may be sent; the answers show whether it reasons
	ReasoningEffort   ReasoningControl = "effort"   // a word
	ReasoningBudget   ReasoningControl = "budget"   // a number of tokens
	ReasoningAdaptive ReasoningControl = "adaptive" // a word, and the model decides whether to reason (Anthropic)
	ReasoningLevel    ReasoningControl = "level"    // a word of Google's
)

// Sampling is when a model takes a temperature.
type Sampling string

// The cases.
const (
	SamplingAlways           Sampling = ""                  // what most models do
	SamplingNever            Sampling = "never"             // it is refused
	SamplingWithoutReasoning Sampling = "without_reasoning" // refused while the model reasons, which it does by default
	SamplingWithoutEffort    Sampling = "without_effort"    // refused while the model reasons, as with any effort sent
)
