package simulator

import (
	"cmp"
	"net/http"
	"strconv"
	"time"
)

// generateWords are Google's errors; their kind is its status.
var generateWords = map[Failure]words{
	RateLimited: {429, "RESOURCE_EXHAUSTED", "", overQuota},
	QuotaDaily:  {429, "RESOURCE_EXHAUSTED", "", overQuota},
	QuotaBilling: {
		429, "RESOURCE_EXHAUSTED", "",
		"Your prepayment credits are depleted. Please go to AI Studio at https://ai.studio/projects to manage your project and billing.",
	},
	SpendLimit: {
		429, "RESOURCE_EXHAUSTED", "",
		"Your project has exceeded its monthly spending cap. Please go to AI Studio at https://ai.studio/spend to manage your project spend cap.",
	},
	Overloaded:    {503, "UNAVAILABLE", "", "The model is overloaded. Please try again later."},
	Loading:       {503, "UNAVAILABLE", "", "The model is overloaded. Please try again later."},
	ServerError:   {500, "INTERNAL", "", "An internal error has occurred. Please retry."},
	ContextLength: {400, "INVALID_ARGUMENT", "", "The input token count (%d) exceeds the maximum number of tokens allowed (%d)."},
	Auth:          {400, "INVALID_ARGUMENT", "API_KEY_INVALID", "API key not valid. Please pass a valid API key."},
	keyMissing: {
		403, "PERMISSION_DENIED", "",
		"Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form " +
			"of API consumer identity to call this API.",
	},
	ModelUnavailable: {404, "NOT_FOUND", "", "models/%s is not found for API version v1beta, or is not supported for generateContent."},
	BadRequest:       {400, "INVALID_ARGUMENT", "", "Request contains an invalid argument."},
	withoutSystem:    {400, "INVALID_ARGUMENT", "", "Developer instruction is not enabled for models/%s"},
	withoutSchema:    {400, "INVALID_ARGUMENT", "", "JSON mode is not enabled for models/%s"},
	searchAndJSON:    {400, "INVALID_ARGUMENT", "", "Tool use with a response mime type: 'application/json' is unsupported"},
}

// overQuota is Google's message for every quota, even one per minute.
const overQuota = "You exceeded your current quota, please check your plan and billing details."

// misleading is the hint that Google sends with a daily quota.
const misleading = 34*time.Second + 74824224*time.Nanosecond

func (generate) problem(c *call, p problem) (status int, body any) {
	switch p.failure {
	case Refused:
		return http.StatusOK, map[string]any{
			"promptFeedback": map[string]string{"blockReason": "PROHIBITED_CONTENT"},
			"usageMetadata":  map[string]int{"promptTokenCount": c.spends.input, "totalTokenCount": c.spends.input},
			"modelVersion":   c.req.model,
		}
	case FailedIn200: // an answer without candidates
		return http.StatusOK, map[string]any{
			"usageMetadata": map[string]int{"promptTokenCount": c.spends.input, "totalTokenCount": c.spends.input},
			"modelVersion":  c.req.model,
		}
	}

	said := generateWords[p.failure]
	message := said.say(c, p)
	if p.counted != "" && p.message != "" {
		message = said.message + " " + p.message
	}
	status = cmp.Or(p.status, said.status)
	object := map[string]any{"code": status, "message": message, "status": said.kind}
	if details := p.googleDetails(c, said); details != nil {
		object["details"] = details
	}
	return status, map[string]any{"error": object}
}

// googleDetails returns the typed details of an error; nil: none.
func (p problem) googleDetails(c *call, said words) (details []any) {
	add := func(name string, fields map[string]any) {
		fields["@type"] = "type.googleapis.com/google.rpc." + name
		details = append(details, fields)
	}
	if said.code != "" {
		add(
			"ErrorInfo",
			map[string]any{
				"reason": said.code, "domain": "googleapis.com",
				"metadata": map[string]string{"service": "generativelanguage.googleapis.com"},
			},
		)
	}
	if id := p.quotaID(); id != "" {
		add("QuotaFailure", map[string]any{"violations": []any{map[string]any{
			"quotaMetric":     "generativelanguage.googleapis.com/generate_content_" + string(p.counted),
			"quotaId":         id,
			"quotaDimensions": map[string]string{"location": "global", "model": c.req.model},
		}}})
	}
	wait := p.wait
	if p.failure == QuotaDaily && c.behaviour.Hints != HintNone {
		wait = misleading
	}
	if wait > 0 {
		add("RetryInfo", map[string]any{"retryDelay": strconv.FormatFloat(wait.Seconds(), 'f', -1, 64) + "s"})
	}

	return details
}

// quotaID returns the name of the limit that refused; Google has none for concurrent calls.
func (p problem) quotaID() string {
	per := "PerMinute"
	if p.failure == QuotaDaily {
		per = "PerDay"
	}
	switch p.counted {
	case requestCount:
		return "GenerateRequests" + per + "PerProjectPerModel"
	case allTokens, inputTokens:
		return "GenerateContentInputTokensPerModel" + per
	case inBatches:
		return "BatchEnqueuedTokensPerProjectPerModel"
	case outputTokens:
		return "GenerateContentOutputTokensPerModel" + per
	}
	return ""
}
