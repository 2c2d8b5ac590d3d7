package transport

import (
	"net/http"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/providers"
)

// TestRules holds what the recorded failures do not show: each rule's other
// reasons, and which rule wins where two match.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		status int
		after  string // Retry-After
		body   string
		want   providers.Class
		hint   time.Duration
	}{
		{name: "a large request wins over its rate", status: 429, after: "3", body: `{"error":{"message":"Request too large for gpt-4.1 on tokens per min (TPM)","code":"rate_limit_exceeded"}}`, want: providers.ContextLength},
		{name: "a text of too many characters", status: 400, body: `{"error":{"message":"Invalid input","code":"string_above_max_length"}}`, want: providers.ContextLength},
		{name: "402 that passes", status: 402, after: "5", body: `{"error":{"code":402,"message":"wait"}}`, want: providers.RateLimited, hint: 5 * time.Second},
		{name: "anthropic's spend limit", status: 429, after: "60", body: `{"error":{"type":"rate_limit_error","message":"limit","details":{"error_code":"enforced_spend_limit_reached"}}}`, want: providers.QuotaBilling},
		{name: "a quota of nothing wins over its day", status: 429, body: `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"limit: 0, model: m","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}}`, want: providers.QuotaBilling},
		{name: "a limit that begins with 0", status: 429, body: `{"error":{"code":429,"message":"limit: 0.5, used 1","details":[{"@type":"type.googleapis.com/google.rpc.Help"}]}}`, want: providers.RateLimited},
		{name: "a day wins over a minute, whose delay it has", status: 429, body: `[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"check your plan and billing details. Please retry in 34s.","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}]`, want: providers.QuotaDaily},
		{name: "a spend limit by its suffix", status: 429, body: `{"error":{"code":"project_spend_limit_exceeded","message":"x"}}`, want: providers.QuotaBilling},
		{name: "google's billing", status: 403, body: `{"error":{"code":403,"status":"PERMISSION_DENIED","message":"x","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"BILLING_DISABLED"}]}}`, want: providers.QuotaBilling},
		{name: "an upstream's account is not ours", status: 429, body: `{"error":{"code":429,"message":"Provider returned error","metadata":{"raw":"Your credit balance is too low, 10 requests per day"}}}`, want: providers.RateLimited},
		{name: "an upstream's window is", status: 400, body: `{"error":{"code":400,"message":"Provider returned error","metadata":{"raw":"prompt is too long: 2 tokens > 1 maximum"}}}`, want: providers.ContextLength},
		{name: "slow down", status: 429, body: `{"error":{"code":"slow_down","message":"x"}}`, want: providers.Overloaded},
		{name: "words of an overload in a bad request", status: 400, body: `{"error":{"message":"the tool named server busy is unknown"}}`, want: providers.BadRequest},
		{name: "a limit in a server error's words", status: 500, body: `{"error":{"message":"Too many requests, slow down"}}`, want: providers.RateLimited},
		{name: "a limit in a gateway's status", status: 503, body: `{"error":{"code":503,"status":"RESOURCE_EXHAUSTED","message":"x"}}`, want: providers.RateLimited},
		{name: "a model without capacity", status: 503, body: `{"error":{"code":503,"status":"RESOURCE_EXHAUSTED","message":"x","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"MODEL_CAPACITY_EXHAUSTED"}]}}`, want: providers.Overloaded},
		{name: "a quota in a bad request's words", status: 400, body: `{"error":{"message":"You exceeded your current quota"}}`, want: providers.RateLimited},
		{name: "a quota in a refusal's words", status: 403, body: `{"error":{"code":403,"message":"Quota exceeded for quota metric 'Requests' of service x"}}`, want: providers.RateLimited},
		{name: "a quota project is no quota", status: 403, body: `{"error":{"code":403,"message":"The API requires a quota project, which is not set by default"}}`, want: providers.Auth},
		{name: "a limit in a refused key's words", status: 401, body: `{"error":{"message":"Invalid key; anonymous calls have a rate limit"}}`, want: providers.Auth},
		{name: "429 without a body", status: 429, want: providers.RateLimited},
		{name: "no access to the model", status: 403, body: `{"error":{"code":"model_not_found","message":"Project does not have access to model gpt-5"}}`, want: providers.ModelUnavailable},
		{name: "mistral's model", status: 400, body: `{"object":"error","message":"Invalid model: x","type":"invalid_model","param":null,"code":"1500"}`, want: providers.ModelUnavailable},
		{name: "a firewall's page", status: 403, body: "\n<!DOCTYPE html>\n<html><head><title>Attention Required! | Cloudflare</title></head><body>blocked</body></html>", want: providers.Blocked},
		{name: "a firewall's page without a type", status: 403, body: `<HTML><HEAD><TITLE>Request Rejected</TITLE></HEAD></HTML>`, want: providers.Blocked},
		{name: "a 401 with a page", status: 401, body: `<html><title>Authorization Required</title></html>`, want: providers.Auth},
		{name: "an API's 403 about a page", status: 403, body: `{"error":{"message":"<html>"}}`, want: providers.Auth},
		{name: "403 without a body", status: 403, want: providers.Auth},
		{name: "408", status: 408, want: providers.Transient},
		{name: "409", status: 409, want: providers.Transient},
		{name: "a failed answer without a known code", status: 200, body: `{"error":{"code":"server_error","message":"x"}}`, want: providers.Transient},
		{name: "a failed answer with a status of its own", status: 200, body: `{"error":"x","status":401}`, want: providers.Auth},
		{name: "a failed answer that blames the request", status: 200, body: `{"error":{"type":"invalid_request_error","message":"x"}}`, want: providers.BadRequest},
		{name: "fastapi", status: 422, body: `{"detail":[{"loc":["body","messages"],"msg":"field required","input":{"secret":1}}]}`, want: providers.BadRequest},
		{name: "405", status: 405, body: `{"detail":"Method Not Allowed"}`, want: providers.BadRequest},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			header := http.Header{}
			if test.after != "" {
				header.Set("Retry-After", test.after)
			}
			got := (&Answer{Body: []byte(test.body), Header: header, status: test.status, sent: noon}).Failure()
			billed := test.status == http.StatusOK || test.want == providers.Transient
			if got.Class != test.want || got.RetryAfter != test.hint || got.MayBeBilled != billed {
				t.Errorf("got class %s, retry after %v, may be billed %v (%s); want %s, %v, %v",
					got.Class, got.RetryAfter, got.MayBeBilled, got.Message, test.want, test.hint, billed)
			}
		})
	}
}

// TestFailuresSpeak holds what an operator reads of a failure.
func TestFailuresSpeak(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, body, code, message string }{
		{"code before type", `{"error":{"message":"No.","type":"t","code":"C"}}`, "C", "No."},
		{"the field at fault", `{"error":{"message":"No.","param":"temperature"}}`, "", "No. (temperature)"},
		{"a code beside the words", `{"code":"Not now","error":"Later."}`, "Not now", "Later."},
		{"words beside the error", `{"error":true,"message":"No."}`, "", "No."},
		{"a list of errors", `{"success":false,"error":[{"code":2003,"message":"Rate limited"}]}`, "2003", "Rate limited"},
		{"azure's reason", `{"error":{"message":"No.","code":"content_filter","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, "ResponsibleAIPolicyViolation", "No."},
		{"what the upstream said", `{"error":{"message":"Provider returned error","metadata":{"raw":"Busy."}}}`, "", "Provider returned error: Busy."},
		{"the upstream alone", `{"error":{"metadata":{"raw":"Busy."}}}`, "", "Busy."},
		{"fastapi's list, without the input", `{"detail":[{"loc":["body",0],"msg":"missing","input":"secret"},{"loc":[],"msg":"extra"}]}`, "", "body.0: missing; : extra"},
		{"mistral's object", `{"object":"error","message":{"detail":[{"loc":["body","x"],"msg":"extra"}]},"type":"invalid_request_error"}`, "invalid_request_error", "body.x: extra"},
		{"a problem, without its address", `{"type":"https://example.com/522","title":"t","status":522,"detail":"No."}`, "", "No."},
		{"a web page's title", "<html><head><title>a &amp; b\n502</title></head><body>long</body>", "", "a & b 502"},
		{"text", " upstream\n connect error ", "", "upstream connect error"},
		{"nothing", "", "", "Bad Gateway"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := (&Answer{Body: []byte(test.body), Header: http.Header{}, status: http.StatusBadGateway, sent: noon}).Failure()
			if got.Code != test.code || got.Message != test.message {
				t.Errorf("got code %q and message %q, want %q and %q", got.Code, got.Message, test.code, test.message)
			}
		})
	}
}
