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

// FailureIn classifies an error object that stands deeper in the answer.
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
	failed := a.fail(class, code, cmp.Or(f.message, http.StatusText(a.status), "an error without words"))
	if class.Retryable() || class == providers.QuotaDaily {
		failed.RetryAfter = f.retryAfter(class, a.Header, a.sent)
	}
	if class == providers.RateLimited || class == providers.QuotaDaily {
		failed.Exceeded = cmp.Or(f.exceeded(), exhausted(failed.Limits))
	}
	return failed
}

// class follows the table of failures; where two rules match, the order decides.
// status is 0 where neither the response nor its body has one.
func (f failure) class(status int, header http.Header) providers.Class {
	switch {
	case status == http.StatusRequestEntityTooLarge, f.tooLong():
		return providers.ContextLength
	case status == http.StatusPaymentRequired && header.Get("Retry-After") != "":
		return providers.RateLimited
	case status == http.StatusPaymentRequired, f.has("enforced_spend_limit_reached"):
		return providers.QuotaBilling
	case f.daily():
		return providers.QuotaDaily
	case f.unpaid(): // not told by "check your plan and billing", which Google says of a quota a minute
		return providers.QuotaBilling
	case status == 529, status == http.StatusServiceUnavailable,
		f.has("overloaded_error", "overloaded", "slow_down", "model_capacity_exhausted", "unavailable"):
		return providers.Overloaded
	case status == http.StatusTooManyRequests,
		f.has("rate_limit_exceeded", "rate_limit_error", "too_many_requests", "resource_exhausted"):
		return providers.RateLimited
	case f.flagged, f.has("content_filter", "content_policy_violation", "responsibleaipolicyviolation", "invalid_prompt", "data_inspection_failed"):
		return providers.Refused
	case f.has("model_not_found", "model_not_available"), invalidModel.MatchString(f.message): // also with 400 and 403
		return providers.ModelUnavailable
	case status == http.StatusUnauthorized, status == http.StatusForbidden,
		f.has("invalid_api_key", "api_key_invalid", "authentication_error", "permission_error"):
		return providers.Auth
	case status == http.StatusNotFound:
		return providers.ModelUnavailable
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status >= 500, status == 0:
		return providers.Transient
	}
	return providers.BadRequest
}

func (f failure) tooLong() bool {
	return f.has("context_length_exceeded", "exceed_context_size_error", "request_too_large", "string_above_max_length") ||
		tooLong.MatchString(f.message)
}

// daily is a quota that only a new day (Google) or many minutes (a bucket of a
// day's size) refill.
func (f failure) daily() bool {
	for _, quota := range f.quotas {
		if strings.Contains(quota, "PerDay") {
			return true
		}
	}
	return f.has("quota_exceeded") || perDay.MatchString(f.message)
}

func (f failure) unpaid() bool {
	for _, code := range f.codes {
		if strings.HasSuffix(code, "_spend_limit_exceeded") {
			return true
		}
	}
	return f.has("insufficient_quota", "credit_balance_exhausted", "organization_usage_limit_exceeded", "billing_not_active", "billing_hard_limit_reached") ||
		unpaid.MatchString(f.message)
}

// What endpoints say that have no code for it.
var (
	tooLong = regexp.MustCompile(`(?i)maximum context length` +
		`|context length is only` +
		`|exceeds? (?:the |this model's |available )*context (?:window|length|size|limit)` +
		`|prompt is too long` +
		`|input token count .{0,40}exceeds the maximum number of tokens` +
		`|greater than the context length` +
		`|request too large for`)
	perDay       = regexp.MustCompile(`(?i)free-models-per-day|\b(?:requests|tokens) per day\b`)
	unpaid       = regexp.MustCompile(`(?i)reached your specified api usage limits|credit balance is too low|insufficient balance`)
	invalidModel = regexp.MustCompile(`(?i)is not a valid model id`)
)
