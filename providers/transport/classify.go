package transport

import (
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
)

// Failure classifies an answer that is an error: any with a status of 400 or
// more, and those that carry an error although the status is 200. The body's
// code counts most, then the status, then the words.
func (a *Answer) Failure() *providers.Error { return a.classify(parseFailure(a.Body)) }

// FailureIn classifies an error object nested deeper in the answer.
func (a *Answer) FailureIn(object json.RawMessage) *providers.Error {
	return a.classify(parseError(object))
}

func (a *Answer) classify(f failure) *providers.Error {
	status := a.status
	if status < 400 {
		status = f.status
	}
	class := f.class(status, a.Header)
	code := ""
	if len(f.codes) > 0 {
		code = f.codes[0]
	}
	failed := a.fail(class, code, cmp.Or(f.words(), http.StatusText(a.status), "an error without a message"))
	// The class comes before any header: what another attempt cannot help has no hint.
	if class.Retryable() || class == providers.QuotaDaily {
		failed.RetryAfter = f.comeBack(class, a.Header, a.sent)
	}
	if class == providers.RateLimited || class == providers.QuotaDaily {
		failed.Exceeded = cmp.Or(f.exceeded(class), exhausted(failed.Limits))
	}
	return failed
}

// class follows the table of docs/errors.md; where two rules match, the order
// decides. status is 0 where neither the response nor its body has one. What a
// gateway's upstream says of accounts is not about ours: such rules read the
// message alone.
func (f failure) class(status int, header http.Header) providers.Class {
	switch {
	case status == http.StatusRequestEntityTooLarge, f.tooLong():
		return providers.ContextLength
	case status == http.StatusPaymentRequired && header.Get("Retry-After") != "":
		return providers.RateLimited
	case status == http.StatusPaymentRequired, f.has("enforced_spend_limit_reached"), f.google && noQuota.MatchString(f.message):
		return providers.QuotaBilling
	case f.daily():
		return providers.QuotaDaily
	case f.unpaid(): // not told by "check your plan and billing", which Google says of a quota a minute
		return providers.QuotaBilling
	case status == http.StatusServiceUnavailable && f.has("resource_exhausted", "too_many_requests") && !f.has("model_capacity_exhausted"):
		return providers.RateLimited
	case f.overloaded(status):
		return providers.Overloaded
	case status == http.StatusTooManyRequests,
		f.has("rate_limit_exceeded", "rate_limit_error", "too_many_requests", "resource_exhausted"):
		return providers.RateLimited
	case f.refused():
		return providers.Refused
	case f.noModel(): // also with 400 and 403
		return providers.ModelUnavailable
	case (status == http.StatusBadRequest || status == http.StatusForbidden || status >= 500) && limited.MatchString(f.message):
		return providers.RateLimited
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired, barred.MatchString(f.message),
		f.has("invalid_api_key", "api_key_invalid", "authentication_error", "permission_error"):
		return providers.Auth
	case status == http.StatusNotFound:
		return providers.ModelUnavailable
	case status == 0 && f.has("invalid_request_error"):
		return providers.BadRequest
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status >= 500, status == 0:
		return providers.Transient
	}
	return providers.BadRequest
}

func (f failure) tooLong() bool {
	return f.has("context_length_exceeded", "exceed_context_size_error", "request_too_large", "string_above_max_length", "too_many_prompt_tokens") ||
		tooLong.MatchString(f.words())
}

// daily is a quota that only a new day (Google), days (a gateway) or many minutes
// (a bucket of a day's size) refill.
func (f failure) daily() bool {
	for _, quota := range f.quotas {
		if strings.Contains(quota, "PerDay") {
			return true
		}
	}
	return f.has("quota_exceeded") || perDay.MatchString(f.message)
}

func (f failure) unpaid() bool {
	return f.hasPart("_spend_limit_exceeded") ||
		f.has("insufficient_quota", "credit_balance_exhausted", "organization_usage_limit_exceeded", "billing_error",
			"billing_not_active", "billing_hard_limit_reached", "billing_disabled", "budget_exceeded") ||
		unpaid.MatchString(f.message)
}

// overloaded: the provider lacks capacity for all accounts, independent of this account's
// requests. Its words count only if the status is ambiguous.
func (f failure) overloaded(status int) bool {
	open := status == 0 || status == http.StatusTooManyRequests || status >= 500
	return status == 529 || status == 498 || status == http.StatusServiceUnavailable || // 498 is Groq's
		f.has("overloaded_error", "overloaded", "server_is_overloaded", "service_unavailable_error", "slow_down",
			"model_capacity_exhausted", "unavailable") ||
		open && busy.MatchString(f.words())
}

func (f failure) refused() bool {
	return f.flagged || f.hasPart("_policy") ||
		f.has("content_filter", "responsibleaipolicyviolation", "invalid_prompt", "data_inspection_failed") ||
		refused.MatchString(f.words())
}

func (f failure) noModel() bool {
	return f.has("model_not_found", "model_not_available", "invalid_model", "model_decommissioned") || noModel.MatchString(f.message)
}

// What endpoints say that have no code for it.
var (
	tooLong = regexp.MustCompile(`(?i)maximum (?:context|prompt) length` +
		`|total length of all messages is too long` + // Perplexity
		`|too many tokens: size limit exceeded` + // Cohere
		`|number of input tokens exceeds maximum length` + // Bedrock
		`|context length (?:is|of) only` +
		`|exceeds? (?:the |this model's |available )*context (?:window|length|size|limit)` +
		`|prompt is too long` +
		`|input is too long` +
		`|prompt too long` + // Ollama's cloud, oMLX
		`|exceed(?:s|ed)? (?:the )?max(?:imum)? context (?:length|window)` +
		`|input token count .{0,40}exceeds the maximum number of tokens` +
		`|greater than the context length` +
		`|n_keep .{0,20}>= n_ctx` +
		`|tokens \+ .max_new_tokens. must be <=` +
		`|max_tokens must be at least 1, got -` + // vLLM: what the prompt left of the window
		`|request too large for`)
	noQuota = regexp.MustCompile(`(?i)\blimit: 0(?:[,\s]|$)`)
	perDay  = regexp.MustCompile(`(?i)free-models-per-day|\b(?:requests|tokens) per day\b|out of call volume quota|\byour daily rate limit\b|\b(?:session|daily|weekly|monthly) usage limit\b`)
	unpaid  = regexp.MustCompile(`(?i)reached your specified (?:workspace )?api usage limits` +
		`|credit balance is too low` +
		`|insufficient balance` +
		`|used all available credits` +
		`|credits are depleted` +
		`|exceeded its monthly spending cap` +
		`|doesn't have any credits` +
		`|key limit exceeded` +
		`|(?:extra usage is|usage credits are) required` +
		`|budget has been exceeded`)
	busy    = regexp.MustCompile(`(?i)^overloaded$|currently overloaded|tier capacity exceeded|server busy|no slots available`)
	limited = regexp.MustCompile(`(?i)\brate[ _-]?limit(?:s|ed)?\b|too many requests|resource[ _]exhausted` +
		`|\bquota (?:has been |is |was )?(?:exceeded|exhausted|reached|limit)|(?:exceed(?:s|ed)?|out of|reached|over) .{0,60}\bquota\b`)
	refused = regexp.MustCompile(`(?i)blocked by content filtering policy|content exists risk`)
	noModel = regexp.MustCompile(`(?i)is not a valid model id|model not exist`)
	barred  = regexp.MustCompile(`(?i)user location is not supported|organization has been disabled|^incorrect(?: |%20)api(?: |%20)key(?: |%20)provided`)
)
