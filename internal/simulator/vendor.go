package simulator

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Vendor is the vendor that a model imitates in OpenAI's dialects, which several vendors use.
type Vendor string

// The vendors. Compatible imitates vLLM, or LM Studio in failures with status 200.
const (
	OpenAI     Vendor = "openai" // the default
	Azure      Vendor = "azure"
	OpenRouter Vendor = "openrouter"
	Compatible Vendor = "compatible"
)

var vendors = []Vendor{"", OpenAI, Azure, OpenRouter, Compatible}

// vendorWords holds the errors in which a vendor differs from OpenAI.
var vendorWords = map[Vendor]map[Failure]words{
	Azure: {
		Refused: {
			400, "", "content_filter",
			"The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry.",
		},
		Auth:             {401, "", "401", "Access denied due to invalid subscription key or wrong API endpoint."},
		keyMissing:       {401, "", "401", "Access denied due to missing subscription key."},
		ModelUnavailable: {404, "", "DeploymentNotFound", "The API deployment for this resource does not exist."},
	},
	OpenRouter: {
		RateLimited:  {429, "", "", "Provider returned error"},
		QuotaDaily:   {429, "", "", "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day"},
		QuotaBilling: {402, "", "", "Insufficient credits. Add more using https://openrouter.ai/settings/credits"},
		SpendLimit:   {403, "", "", "Key limit exceeded (total limit). Manage it using https://openrouter.ai/settings/keys"},
		Overloaded:   {503, "", "", "Provider returned error"},
		Loading:      {503, "", "", "Provider returned error"},
		ServerError:  {502, "", "", "Provider returned error"},
		FailedIn200:  {200, "", "", "Provider returned error"},
		ContextLength: {
			400, "", "",
			"This endpoint's maximum context length is %[2]d tokens. However, you requested about %[1]d tokens. Please reduce " +
				"the length of either one.",
		},
		Refused:          {403, "", "", "Your input was flagged by moderation."},
		Auth:             {401, "", "", "User not found."},
		keyMissing:       {401, "", "", "No auth credentials found"},
		ModelUnavailable: {404, "", "", "No endpoints found for %s."},
	},
	Compatible: {
		FailedIn200: {200, "", "", "Model unloaded."},
		ContextLength: {
			400, "", "",
			"This model's maximum context length is %[2]d tokens. However, your request has %[1]d input tokens. Please reduce " +
				"the length of the input messages.",
		},
		ModelUnavailable: {404, "", "", "The model `%s` does not exist."},
		Auth:             {401, "", "", "Unauthorized"},
		keyMissing:       {401, "", "", "Unauthorized"},
	},
}

// wording returns a vendor's words for a failure: its own, or OpenAI's.
func wording(v Vendor, f Failure) words {
	if own, ok := vendorWords[v][f]; ok {
		return own
	}
	return chatWords[f]
}

// openaiProblem returns an error of both of OpenAI's dialects, in the vendor's form.
func openaiProblem(c *call, p problem) (status int, body any) {
	vendor := c.behaviour.Vendor
	said := wording(vendor, p.failure)
	status, message := cmp.Or(p.status, said.status), said.say(c, p)
	object := map[string]any{"message": message}
	switch vendor {
	case Azure:
		azureError(object, p, said)
	case OpenRouter:
		openrouterError(object, c, p, status)
	case Compatible:
		if p.failure == FailedIn200 || p.failure == Auth || p.failure == keyMissing {
			return status, map[string]any{"error": message}
		}
		object["type"], object["param"], object["code"] = compatibleTypes[status], nil, status
	default:
		openaiError(object, p, said)
	}
	return status, map[string]any{"error": object}
}

func openaiError(object map[string]any, p problem, said words) {
	object["type"], object["param"], object["code"] = said.kind, nil, nil
	switch {
	case p.status != 0 && p.failure == RateLimited: // configured by its status
		object["type"] = "rate_limit_error"
	case p.counted != "":
		object["type"], object["code"] = p.counted, said.code
	case said.code != "":
		object["code"] = said.code
	}
}

// azureError adds to the message of a limit when to come back.
func azureError(object map[string]any, p problem, said words) {
	switch {
	case p.failure == RateLimited, p.failure == QuotaDaily:
		limit, wait := "call rate limit", p.wait
		if p.counted == allTokens || p.counted == inputTokens || p.counted == outputTokens {
			limit = "token rate limit"
		}
		if p.failure == QuotaDaily {
			wait = day
		}

		object["code"] = "429"
		object["message"] = fmt.Sprintf(
			"Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded %s of "+
				"your current OpenAI S0 pricing tier. Please retry after %s seconds.",
			limit, roundedUp(wait, time.Second),
		)
	case p.failure == Refused:
		object["type"], object["param"], object["code"], object["status"] = nil, "prompt", said.code, said.status
		object["innererror"] = map[string]any{
			"code":                  "ResponsibleAIPolicyViolation",
			"content_filter_result": map[string]any{"hate": map[string]any{"filtered": true, "severity": "high"}},
		}
	case said.kind == "":
		object["code"] = said.code
	default:
		openaiError(object, p, said)
	}
}

// openrouterError sets a number as the code, and the cause in the metadata.
func openrouterError(object map[string]any, c *call, p problem, status int) {
	object["code"] = status
	switch {
	case p.failure == FailedIn200:
		object["code"] = http.StatusBadGateway
		fallthrough
	case object["message"] == "Provider returned error":
		object["metadata"] = map[string]any{
			"provider_name": "Simulated", "raw": c.req.model + " is temporarily in trouble upstream. Please retry shortly.",
		}
	case p.failure == Refused:
		object["metadata"] = map[string]any{
			"reasons": []string{"violence"}, "flagged_input": "…", "provider_name": "Simulated", "model_slug": c.req.model,
		}
	default:
		if headers := openrouterLimit(c, p); headers != nil {
			object["metadata"] = map[string]any{"headers": headers}
		}
	}
}

// openrouterLimit returns the limit as headers that are repeated in the body; nil if no limit
// refused, or its end is unknown.
func openrouterLimit(c *call, p problem) map[string]string {
	if p.counted == "" || p.wait == 0 {
		return nil
	}
	limit := 20
	for _, state := range c.told {
		if state.counted == requestCount {
			limit = state.max
		}
	}
	return map[string]string{
		"X-RateLimit-Limit":     strconv.Itoa(limit),
		"X-RateLimit-Remaining": "0",
		"X-RateLimit-Reset":     strconv.FormatInt(time.Now().Add(p.wait).UnixMilli(), 10),
	}
}

var compatibleTypes = map[int]string{
	400: "BadRequestError", 404: "NotFoundError", 429: "RateLimitError", 500: "InternalServerError", 503: "ServiceUnavailableError",
}

// openaiHead reports the limits as the vendor does. OpenAI has none on input and output tokens;
// they are reported in the same form.
func openaiHead(h http.Header, c *call) {
	h.Set("X-Request-Id", c.id("req_"))
	switch c.behaviour.Vendor {
	case OpenRouter, Compatible: // they report none
	case Azure:
		azureHead(h, c)
	default:
		for _, state := range c.told {
			limitHead(h, state.counted, state.max, state.left, state.reset.String())
		}
	}
}

// azureHead always reports both limits, with -1 for an unknown one. In the Responses API, none are
// known.
func azureHead(h http.Header, c *call) {
	h.Set("Apim-Request-Id", c.id(""))
	if c.behaviour.WithoutLimitHeaders {
		return
	}
	for _, counted := range []quantity{requestCount, allTokens} {
		limitHead(h, counted, -1, -1, "0")
	}
	if c.req.responses != nil {
		return
	}
	for _, state := range c.told {
		limitHead(h, state.counted, state.max, state.left, roundedUp(state.reset, time.Second))
	}
}

// openaiHint sets the vendor's hint headers.
func openaiHint(h http.Header, c *call, p problem) {
	vendor := c.behaviour.Vendor
	if vendor == Compatible || vendor == Azure && c.req.responses != nil {
		return
	}
	h.Set("Retry-After", roundedUp(p.wait, time.Second))
	switch {
	case vendor == OpenRouter:
		for name, value := range openrouterLimit(c, p) {
			h.Set(name, value)
		}
	case c.behaviour.Hints != HintSeconds:
		h.Set("Retry-After-Ms", roundedUp(p.wait, time.Millisecond))
	}
}

// addManners adds to a completion what the vendor sends in addition to OpenAI's fields.
func (c *call) addManners(body, choice, said, usage map[string]any) {
	switch c.behaviour.Vendor {
	case Azure:
		verdict := map[string]any{"hate": map[string]any{"filtered": c.plan.finish == filtered, "severity": "safe"}}
		choice["content_filter_results"] = verdict
		body["prompt_filter_results"] = []any{map[string]any{"prompt_index": 0, "content_filter_results": map[string]any{}}}
	case OpenRouter:
		body["id"], body["provider"] = c.id("gen-"), "Simulated"
		choice["native_finish_reason"] = choice["finish_reason"]
		usage["cost"] = c.dollars()
		if c.plan.thoughts != "" && c.req.shown {
			said["reasoning"] = c.plan.thoughts
			said["reasoning_details"] = []any{map[string]any{"type": "reasoning.text", "text": c.plan.thoughts, "format": "unknown", "index": 0}}
		}
	case Compatible:
		delete(usage, "completion_tokens_details") // vLLM does not count reasoning separately
		if c.plan.thoughts != "" {
			said["reasoning_content"] = c.plan.thoughts
		}
	}
}

// dollars returns the cost of a call: 1 USD per million input tokens, and 4 per million output
// tokens.
func (c *call) dollars() float64 { return float64(c.charge()) / nano }

// nano is the number of nano-USD in a dollar.
const nano = 1e9

// charge returns the cost of a call in nano-USD. In a batch, it is half.
func (c *call) charge() int64 {
	cost := int64(c.spends.input+4*c.spends.output) * 1000
	if c.batched {
		return cost / 2
	}
	return cost
}
