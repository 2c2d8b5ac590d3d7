package transport

import (
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
)

// Failure classifies an answer that is an error: any with a status of 400 or more, and those that contain an error
// although the status is 200. The body's code counts most, then the status, then the words.
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
	switch {
	case len(f.codes) > 0:
		code = f.codes[0]
	case f.number != 0:
		code = strconv.Itoa(f.number)
	}
	failed := a.fail(class, code, cmp.Or(f.words(), http.StatusText(a.status), "an error without a message"))
	// The class is determined before any header: a failure that another attempt cannot fix has no hint.
	if class.Retryable() || class == providers.QuotaDaily {
		failed.RetryAfter = f.comeBack(class, a.Header, a.sent)
	}
	if class == providers.RateLimited || class == providers.QuotaDaily {
		failed.Exceeded = cmp.Or(f.exceeded(class), exhausted(failed.Limits))
	}
	return failed
}

// class returns the class of the failure, by the table of docs/errors.md; if two rules match, the order decides. status
// is 0 if neither the response nor its body has one. What a gateway's upstream says about accounts does not concern
// ours: such rules read the message alone.
func (f failure) class(status int, header http.Header) providers.Class {
	if class := f.byNumber(); class != "" {
		return class
	}

	switch {
	case status == http.StatusRequestEntityTooLarge, f.tooLong():
		return providers.ContextLength
	case status == http.StatusPaymentRequired && header.Get("Retry-After") != "":
		return providers.RateLimited
	case status == http.StatusPaymentRequired, f.has("enforced_spend_limit_reached"), f.google && noQuota.MatchString(f.message):
		return providers.QuotaBilling
	case f.daily():
		return providers.QuotaDaily
	case enqueued.MatchString(f.message): // OpenAI, of a batch
		return providers.RateLimited
	case allocated.MatchString(f.message): // DashScope's tokens per minute, with the code of an empty account
		return providers.RateLimited
	case f.unpaid(): // not by "check your plan and billing", which Google says about a quota per minute
		return providers.QuotaBilling
	case status == http.StatusServiceUnavailable && f.has("resource_exhausted", "too_many_requests") && !f.has("model_capacity_exhausted"):
		return providers.RateLimited
	case f.overloaded(status):
		return providers.Overloaded
	case status == http.StatusTooManyRequests,
		f.hasPart("throttling"), // DashScope, Bedrock
		f.has("rate_limit_exceeded", "rate_limit_error", "too_many_requests", "resource_exhausted", "rate_limit_reached_error"):
		return providers.RateLimited
	case f.refused():
		return providers.Refused
	case f.noModel(): // also with 400 and 403
		return providers.ModelUnavailable
	case (status == 0 || status == http.StatusBadRequest || status == http.StatusForbidden || status >= 500) && limited.MatchString(f.message):
		return providers.RateLimited
	case status == http.StatusForbidden && f.page: // an API answers with an error of its own
		return providers.Blocked
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired,
		barred.MatchString(f.message),
		f.has("invalid_api_key", "api_key_invalid", "authentication_error", "permission_error"):
		return providers.Auth
	case status == http.StatusNotFound:
		return providers.ModelUnavailable
	case f.has("json_validate_failed", "output_parse_failed"): // Groq: the model's answer, which may differ next time
		return providers.Transient
	case status == 0 && f.has("invalid_request_error"):
		return providers.BadRequest
	// 499: cancelled on the way
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == 499, status >= 500, status == 0:
		return providers.Transient
	}

	return providers.BadRequest
}

// zhipu maps the numeric codes in https://docs.bigmodel.cn/cn/api/api-code to classes, and minimax those in
// https://platform.minimax.io/docs/api-reference/errorcode.
var (
	zhipu = map[int]providers.Class{
		1000: providers.Auth, 1001: providers.Auth, 1002: providers.Auth, 1003: providers.Auth, 1004: providers.Auth,
		1110: providers.Auth, 1111: providers.Auth, 1112: providers.Auth, 1121: providers.Auth, 1220: providers.Auth,
		1113: providers.QuotaBilling, 1309: providers.QuotaBilling,
		1211: providers.ModelUnavailable, 1221: providers.ModelUnavailable, 1222: providers.ModelUnavailable,
		1311: providers.ModelUnavailable,
		1261: providers.ContextLength,
		1300: providers.Refused, 1301: providers.Refused,
		1302: providers.RateLimited, 1303: providers.RateLimited, 1313: providers.RateLimited,
		1304: providers.QuotaDaily, 1308: providers.QuotaDaily, 1310: providers.QuotaDaily,
		1305: providers.Overloaded, 1312: providers.Overloaded,
		1120: providers.Transient, 1234: providers.Transient,
	}
	minimax = map[int]providers.Class{
		1002: providers.RateLimited, 1039: providers.RateLimited, 1041: providers.RateLimited, 2045: providers.RateLimited,
		1004: providers.Auth, 2049: providers.Auth,
		1008: providers.QuotaBilling,
		1026: providers.Refused, 1027: providers.Refused,
		2013: providers.BadRequest,
		2056: providers.QuotaDaily,
	}
)

// byNumber returns the class of a vendor's numeric code; empty: unknown. Beside a code in words, as Mistral sends, the
// number is ignored.
func (f failure) byNumber() providers.Class {
	switch {
	case len(f.codes) > 0:
		return ""
	case f.minimax && f.number == 2013 && tooLong.MatchString(f.message): // invalid parameters of any kind
		return providers.ContextLength
	case f.minimax:
		return minimax[f.number]
	}
	return zhipu[f.number]
}

func (f failure) tooLong() bool {
	return f.has("context_length_exceeded", "exceed_context_size_error", "request_too_large", "string_above_max_length",
		"too_many_prompt_tokens",
		"tokens_too_long", "characters_too_long") || // the last two: Baidu
		tooLong.MatchString(f.words())
}

// daily reports whether the exceeded quota refills only on a new day (Google), after days (a gateway) or after many
// minutes (a bucket of a day's size).
func (f failure) daily() bool {
	for _, quota := range f.quotas {
		if strings.Contains(quota, "PerDay") {
			return true
		}
	}
	return f.has("quota_exceeded") || inDays.MatchString(f.message) || perDay.MatchString(f.message)
}

func (f failure) unpaid() bool {
	return f.hasPart("_spend_limit_exceeded") ||
		f.has("insufficient_quota", "credit_balance_exhausted", "organization_usage_limit_exceeded", "billing_error",
			"billing_not_active", "billing_hard_limit_reached", "billing_disabled", "budget_exceeded",
			"exceeded_current_quota_error", "arrearage", "allocationquota.freetieronly", // Moonshot, DashScope
			"accountoverdueerror", "serviceoverdue", "operationdenied.serviceoverdue", "setlimitexceeded") || // Volcengine
		unpaid.MatchString(f.message)
}

// overloaded reports whether the provider lacks capacity for all accounts, independent of this account's requests. The
// words of the message count only if the status is ambiguous.
func (f failure) overloaded(status int) bool {
	open := status == 0 || status == http.StatusTooManyRequests || status >= 500
	return status == 529 || status == 498 || status == http.StatusServiceUnavailable || // 498 is Groq's
		f.has("overloaded_error", "overloaded", "server_is_overloaded", "service_unavailable_error", "slow_down",
			"model_capacity_exhausted", "unavailable", "engine_overloaded_error") || // the last: Moonshot
		open && busy.MatchString(f.words())
}

func (f failure) refused() bool {
	return f.flagged || f.hasPart("_policy") || slices.ContainsFunc(f.codes, Filtered) ||
		f.has("responsibleaipolicyviolation", "invalid_prompt") ||
		refused.MatchString(f.words())
}

// Filtered reports whether a code, or the reason for which an answer ended, means that a content filter acted. Each
// vendor has its own words for that.
func Filtered(code string) bool { return filtered.MatchString(code) }

var filtered = regexp.MustCompile(`(?i)content_?filter|moderation|sensitive|risk_?detection|flagged|prohibited|` +
	`guardrail|^(?:safety|blocked|refusal|policy)$|data_?inspection`)

func (f failure) noModel() bool {
	return f.has("model_not_found", "model_not_available", "invalid_model", "model_decommissioned") || noModel.MatchString(f.message)
}

// Messages of endpoints that have no code for the failure.
var (
	tooLong = regexp.MustCompile(`(?i)maximum (?:context|prompt) length` +
		`|total length of all messages is too long` + // Perplexity
		`|too many tokens: (?:size limit exceeded|(?:the )?total number of tokens)` + // Cohere
		`|number of input tokens exceeds maximum length` + // Bedrock
		`|context length (?:is|of) only` +
		`|exceeds? (?:the |this model's |available )*context (?:window|length|size|limit)` +
		`|prompt is too long` +
		`|input is too long` +
		`|input token length too long` + // Moonshot
		`|prompt too long` + // Ollama's cloud, oMLX
		`|exceed(?:s|ed)? (?:the )?max(?:imum)? context (?:length|window)` +
		`|input token count .{0,40}exceeds the maximum number of tokens` +
		`|greater than the context length` +
		`|n_keep .{0,20}>= n_ctx` +
		`|tokens \+ .max_new_tokens. must be <=` +
		`|inputs. must have less than \d+ tokens` + // TGI
		`|exceeded model token limit` + // Moonshot
		`|context window exceeds limit` + // MiniMax
		`|range of input length should be` + // DashScope
		`|prompt exceeds max length|prompt 超长` + // Zhipu
		`|max_tokens must be at least 1, got -` + // vLLM: what the prompt left of the window
		`|request too large for`)
	noQuota = regexp.MustCompile(`(?i)\blimit: 0(?:[,\s]|$)`)
	perDay  = regexp.MustCompile(`(?i)free-models-per-day|\b(?:requests|tokens) per day\b|out of call volume quota|daily ` +
		`request limit reached|\byour daily rate limit\b|\b(?:session|daily|weekly|monthly) usage limit\b`)
	unpaid = regexp.MustCompile(`(?i)reached your specified (?:workspace )?api usage limits` +
		`|free tier is not available in your country` + // Google
		`|credit balance is too low` +
		`|insufficient (?:account )?balance` +
		`|余额不足|已欠费` + // Zhipu
		`|free allocated quota exceeded` + // DashScope
		`|exhausted (?:the|its) free trial quota` + // Volcengine
		`|used all available credits` +
		`|credits are depleted` +
		`|exceeded its monthly spending cap` +
		`|doesn't have any credits` +
		`|key limit exceeded` +
		`|(?:extra usage is|usage credits are) required` +
		`|budget has been exceeded`)
	allocated = regexp.MustCompile(`(?i)^allocated quota exceeded`)
	// Cohere's trial key, GitHub, Kimi
	inDays  = regexp.MustCompile(`(?i)\bAPI calls / month\b|UserBy(?:Model)?ByDay\b|usage limit for this (?:billing cycle|week|period)`)
	busy    = regexp.MustCompile(`(?i)^overloaded$|currently overloaded|tier capacity exceeded|server busy|no slots available`)
	limited = regexp.MustCompile(`(?i)\brate[ _-]?limit(?:s|ed)?\b|\brequest limit reached\b|too many requests|resource[ _]exhausted` +
		`|\bquota (?:has been |is |was )?(?:exceeded|exhausted|reached|limit)|(?:exceed(?:s|ed)?|out of|reached|over) .{0,60}\bquota\b`)
	refused = regexp.MustCompile(`(?i)blocked by content filtering policy|content exists risk|inappropriate content|high ` +
		`risk and was rejected`)
	noModel = regexp.MustCompile(`(?i)is not a valid model id|model not exist`)
	barred  = regexp.MustCompile(`(?i)user location is not supported|organization has been disabled|^incorrect(?: |` +
		`%20)api(?: |%20)key(?: |%20)provided`)
)
