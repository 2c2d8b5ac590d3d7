package transport

import (
	"bufio"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalfleet/evalfleet/providers"
)

// wire reads headers as they are in a response.
func wire(t *testing.T, text string) http.Header {
	t.Helper()
	var lines strings.Builder
	for line := range strings.Lines(text) {
		lines.WriteString(strings.TrimSpace(line) + "\r\n")
	}
	h, err := textproto.NewReader(bufio.NewReader(strings.NewReader(strings.TrimLeft(lines.String(), "\r\n") + "\r\n"))).ReadMIMEHeader()
	if err != nil {
		t.Fatal(err)
	}
	return keep(http.Header(h))
}

func TestLimitsInHeaders(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, header string
		want         []providers.LimitState
	}{
		{name: "none", header: "x-request-id: req_1"},
		{
			name: "openai",
			header: `x-ratelimit-limit-requests: 5000
				x-ratelimit-limit-tokens: 800000
				x-ratelimit-remaining-requests: 4999
				x-ratelimit-remaining-tokens: 799984
				x-ratelimit-reset-requests: 12ms
				x-ratelimit-reset-tokens: 6m0s`,
			want: []providers.LimitState{
				{Kind: providers.LimitRequests, Limit: 5000, Remaining: 4999, Reset: 12 * time.Millisecond},
				{Kind: providers.LimitTokens, Limit: 800_000, Remaining: 799_984, Reset: 6 * time.Minute},
			},
		},
		{
			name: "anthropic",
			header: `anthropic-ratelimit-requests-limit: 50
				anthropic-ratelimit-requests-remaining: 49
				anthropic-ratelimit-requests-reset: 2026-01-02T12:00:01Z
				anthropic-ratelimit-input-tokens-limit: 40000
				anthropic-ratelimit-input-tokens-remaining: 39000
				anthropic-ratelimit-input-tokens-reset: 2026-01-02T12:00:02Z
				anthropic-ratelimit-output-tokens-limit: 8000
				anthropic-ratelimit-output-tokens-remaining: 0
				anthropic-ratelimit-output-tokens-reset: 2026-01-02T12:01:00Z
				anthropic-ratelimit-tokens-limit: 48000
				anthropic-ratelimit-tokens-remaining: 39000
				anthropic-ratelimit-tokens-reset: 2026-01-02T11:59:00Z`,
			want: []providers.LimitState{
				{Kind: providers.LimitRequests, Limit: 50, Remaining: 49, Reset: time.Second},
				{Kind: providers.LimitTokens, Limit: 48_000, Remaining: 39_000}, // reset in the past
				{Kind: providers.LimitInputTokens, Limit: 40_000, Remaining: 39_000, Reset: 2 * time.Second},
				{Kind: providers.LimitOutputTokens, Limit: 8000, Remaining: 0, Reset: time.Minute},
			},
		},
		{
			name: "azure, which knows nothing of requests",
			header: `x-ratelimit-limit-requests: -1
				x-ratelimit-remaining-requests: -1
				x-ratelimit-reset-requests: 0
				x-ratelimit-limit-tokens: 150000
				x-ratelimit-remaining-tokens: 149700
				x-ratelimit-reset-tokens: 14`,
			want: []providers.LimitState{{Kind: providers.LimitTokens, Limit: 150_000, Remaining: 149_700, Reset: 14 * time.Second}},
		},
		{ // https://github.com/openai/openai-dotnet/issues/838
			name: "azure, which knows nothing",
			header: `x-ratelimit-limit-tokens: -1
				x-ratelimit-remaining-tokens: -1
				x-ratelimit-reset-tokens: 0`,
		},
		{ // https://github.com/whoz-oss/coday/issues/110
			name: "anthropic, its input used up",
			header: `anthropic-ratelimit-input-tokens-limit: 200000
				anthropic-ratelimit-input-tokens-remaining: 0
				anthropic-ratelimit-input-tokens-reset: 2026-01-02T12:01:03Z
				anthropic-ratelimit-requests-limit: 4000
				anthropic-ratelimit-requests-remaining: 4000
				anthropic-ratelimit-requests-reset: 2026-01-02T12:00:00Z
				retry-after: 16`,
			want: []providers.LimitState{
				{Kind: providers.LimitRequests, Limit: 4000, Remaining: 4000},
				{Kind: providers.LimitInputTokens, Limit: 200_000, Reset: 63 * time.Second},
			},
		},
		{ // https://console.groq.com/docs/rate-limits
			name: "groq",
			header: `retry-after: 2
				x-ratelimit-limit-requests: 14400
				x-ratelimit-limit-tokens: 18000
				x-ratelimit-remaining-requests: 14370
				x-ratelimit-remaining-tokens: 17997
				x-ratelimit-reset-requests: 2m59.56s
				x-ratelimit-reset-tokens: 7.66s`,
			want: []providers.LimitState{
				{Kind: providers.LimitRequests, Limit: 14_400, Remaining: 14_370, Reset: 179_560 * time.Millisecond},
				{Kind: providers.LimitTokens, Limit: 18_000, Remaining: 17_997, Reset: 7660 * time.Millisecond},
			},
		},
		{
			name: "openrouter, in Unix milliseconds and without a kind",
			header: `X-RateLimit-Limit: 50
				X-RateLimit-Remaining: 0
				X-RateLimit-Reset: 1767398400000`,
			want: []providers.LimitState{{Limit: 50, Reset: 12 * time.Hour}},
		},
		{
			name: "mistral",
			header: `x-ratelimit-limit-req-minute: 60
				x-ratelimit-remaining-req-minute: 59
				x-ratelimit-limit-tokens-minute: 500000
				x-ratelimit-remaining-tokens-minute: 499900`,
			want: []providers.LimitState{
				{Kind: providers.LimitRequests, Period: time.Minute, Limit: 60, Remaining: 59},
				{Kind: providers.LimitTokens, Period: time.Minute, Limit: 500_000, Remaining: 499_900},
			},
		},
		{
			name: "cerebras",
			header: `x-ratelimit-limit-requests-day: 14400
				x-ratelimit-limit-tokens-minute: 60000
				x-ratelimit-remaining-requests-day: 14399
				x-ratelimit-remaining-tokens-minute: 59000.5
				x-ratelimit-reset-requests-day: 33011.25
				x-ratelimit-reset-tokens-minute: 11.25`,
			want: []providers.LimitState{
				{Kind: providers.LimitRequests, Period: 24 * time.Hour, Limit: 14_400, Remaining: 14_399, Reset: 33_011_250 * time.Millisecond},
				{Kind: providers.LimitTokens, Period: time.Minute, Limit: 60_000, Remaining: 59_000, Reset: 11_250 * time.Millisecond},
			},
		},
		{
			name:   "what remains alone",
			header: "x-ratelimit-remaining-tokens: 0",
			want:   []providers.LimitState{{Kind: providers.LimitTokens}},
		},
		{
			name:   "below nothing",
			header: "x-ratelimit-limit-tokens: 10\nx-ratelimit-remaining-tokens: -5",
			want:   []providers.LimitState{{Kind: providers.LimitTokens, Limit: 10, Remaining: -1}},
		},
		{name: "no numbers", header: "x-ratelimit-limit-requests: many\nx-ratelimit-remaining-requests: NaN\nx-ratelimit-reset-requests: soon"},
		{
			name:   "beyond belief",
			header: "x-ratelimit-limit-tokens: 1e300\nx-ratelimit-reset-tokens: 9000h",
			want:   []providers.LimitState{{Kind: providers.LimitTokens, Limit: 2_147_483_647_000_000, Remaining: -1, Reset: 24 * time.Hour}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			answer := &Answer{Header: wire(t, test.header), sent: noon}
			if diff := cmp.Diff(test.want, answer.Limits()); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFailuresNameTheLimit(t *testing.T) {
	t.Parallel()
	openAI := func(kind, message string) string {
		return `{"error":{"message":"Rate limit reached for m in organization org-1 on ` + message + `","type":"` + kind + `","param":null,"code":"rate_limit_exceeded"}}`
	}
	anthropic := func(message string) string {
		return `{"type":"error","error":{"type":"rate_limit_error","message":"` + message + `"}}`
	}
	google := func(quota string) string {
		return `{"error":{"code":429,"message":"You exceeded your current quota.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"` + quota + `"}]}]}}`
	}
	for _, test := range []struct {
		name, header, body string
		want               providers.LimitKind
		class              providers.Class // empty: RateLimited
	}{
		{name: "openai requests", body: openAI("requests", "requests per min (RPM): Limit 3, Used 3, Requested 1."), want: providers.LimitRequests},
		{name: "openai tokens", body: openAI("tokens", "tokens per min (TPM): Limit 30000, Used 29000, Requested 4100."), want: providers.LimitTokens},
		{name: "openai requests a day", body: openAI("requests", "requests per day (RPD): Limit 200, Used 200, Requested 1."), want: providers.LimitRequests, class: providers.QuotaDaily},
		{name: "groq, by its words alone", body: openAI("", "tokens per minute (TPM): Limit 6000, Used 5900, Requested 200."), want: providers.LimitTokens},
		{name: "azure calls", body: `{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation have exceeded call rate limit of your current pricing tier. Please retry after 5 seconds."}}`, want: providers.LimitRequests},
		{name: "azure tokens", body: `{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation have exceeded token rate limit of your current pricing tier. Please retry after 5 seconds."}}`, want: providers.LimitTokens},
		{name: "anthropic requests", body: anthropic("This request would exceed your organization's rate limit of 50 requests per minute."), want: providers.LimitRequests},
		{name: "anthropic input", body: anthropic("This request would exceed your organization's rate limit of 40,000 input tokens per minute."), want: providers.LimitInputTokens},
		{name: "anthropic output", body: anthropic("This request would exceed your organization's rate limit of 8,000 output tokens per minute."), want: providers.LimitOutputTokens},
		{name: "anthropic connections", body: anthropic("Number of concurrent connections has exceeded your rate limit."), want: providers.LimitConcurrency},
		{name: "anthropic's older words", body: anthropic("Number of request tokens has exceeded your per-minute rate limit."), want: providers.LimitTokens},
		{name: "google requests", body: google("GenerateRequestsPerMinutePerProjectPerModel"), want: providers.LimitRequests},
		{name: "google input", body: google("GenerateContentInputTokensPerModelPerMinute-FreeTier"), want: providers.LimitInputTokens},
		{name: "google requests a day", body: google("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), want: providers.LimitRequests, class: providers.QuotaDaily},
		{name: "vertex", body: `{"error":{"code":429,"message":"Quota exceeded for aiplatform.googleapis.com/generate_content_requests_per_minute_per_project_per_base_model","status":"RESOURCE_EXHAUSTED"}}`, want: providers.LimitRequests},
		{name: "cerebras", body: `{"message":"Tokens per minute limit exceeded - too many tokens processed.","type":"too_many_tokens_error","param":"quota","code":"token_quota_exceeded"}`, want: providers.LimitTokens},
		{name: "openrouter", body: `{"error":{"code":429,"message":"Rate limit exceeded: free-models-per-min. "}}`, want: providers.LimitRequests},
		{name: "by the one limit that is used up", header: "anthropic-ratelimit-requests-remaining: 3\nanthropic-ratelimit-output-tokens-remaining: 0", body: anthropic("slow"), want: providers.LimitOutputTokens},
		{name: "by one of two used up: unknown", header: "x-ratelimit-remaining-requests: 0\nx-ratelimit-remaining-tokens: 0", body: anthropic("slow")},
		{name: "by one of two used up, one without a kind: unknown", header: "x-ratelimit-remaining: 0\nx-ratelimit-remaining-tokens: 0", body: anthropic("slow")},
		{name: "words before headers", header: "x-ratelimit-remaining-requests: 0", body: openAI("tokens", "tokens per min"), want: providers.LimitTokens},
		{name: "unknown", body: `{"error":{"message":"Too Many Requests"}}`},
		{name: "no limit at all", body: `{"error":{"message":"The requests per minute are high","code":"slow_down"}}`, class: providers.Overloaded},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			answer := &Answer{Body: []byte(test.body), Header: wire(t, test.header), status: http.StatusTooManyRequests, sent: noon}
			if test.class == "" {
				test.class = providers.RateLimited
			}
			if got := answer.Failure(); got.Exceeded != test.want || got.Class != test.class {
				t.Errorf("got %q of class %s, want %q of class %s", got.Exceeded, got.Class, test.want, test.class)
			}
		})
	}
}
