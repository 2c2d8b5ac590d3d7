package transport

import (
	"net/http"
	"testing"
	"time"

	"github.com/evalfleet/evalfleet/providers"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestRetryAfterReadsEveryVendorsFormat(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		class  providers.Class
		header map[string]string
		body   string
		want   time.Duration
	}{
		{name: "seconds", header: map[string]string{"retry-after": "7"}, want: 7 * time.Second},
		{name: "fractional seconds", header: map[string]string{"retry-after": "0.25"}, want: 250 * time.Millisecond},
		{name: "date", header: map[string]string{"retry-after": "Fri, 02 Jan 2026 12:01:30 GMT"}, want: 90 * time.Second},
		{name: "date gone by", header: map[string]string{"retry-after": "Fri, 02 Jan 2026 11:00:00 GMT"}},
		{name: "milliseconds come first", header: map[string]string{"retry-after-ms": "1500", "retry-after": "2"}, want: 1500 * time.Millisecond},
		{name: "a Go duration", header: map[string]string{"retry-after": "1m2.5s"}, want: 62500 * time.Millisecond},
		{name: "RFC 3339", header: map[string]string{"retry-after": "2026-01-02T12:00:30Z"}, want: 30 * time.Second},
		{name: "negative", header: map[string]string{"retry-after": "-1"}},
		{name: "negative duration", header: map[string]string{"retry-after": "-5s"}},
		{name: "not a number", header: map[string]string{"retry-after": "NaN"}},
		{name: "words", header: map[string]string{"retry-after": "soon"}},
		{name: "beyond a day", header: map[string]string{"retry-after": "1e300"}, want: 24 * time.Hour},
		{
			name: "the exhausted limit's reset as a Go duration",
			header: map[string]string{
				"x-ratelimit-remaining-requests": "12", "x-ratelimit-reset-requests": "6m0s",
				"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m2.5s",
			},
			want: 62500 * time.Millisecond,
		},
		{name: "reset in milliseconds", header: map[string]string{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20ms"}, want: 20 * time.Millisecond},
		{name: "reset without what remains", header: map[string]string{"x-ratelimit-reset-requests": "3s"}, want: 3 * time.Second},
		{name: "azure's integer seconds", header: map[string]string{"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "14"}, want: 14 * time.Second},
		{name: "azure's -1", header: map[string]string{"x-ratelimit-remaining-requests": "-1", "x-ratelimit-reset-requests": "-1"}},
		{name: "azure, where nothing else says it", header: map[string]string{"x-rate-limit-reset-tokens": "55"}, want: 55 * time.Second},
		{name: "anthropic's time", header: map[string]string{"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "2026-01-02T12:00:05Z"}, want: 5 * time.Second},
		{name: "openrouter's Unix milliseconds", header: map[string]string{"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1767355204000"}, want: 4 * time.Second},
		{name: "Unix seconds", header: map[string]string{"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1767355204"}, want: 4 * time.Second},
		{
			name: "openrouter repeats the upstream's headers in the body",
			body: `{"error":{"code":429,"message":"Rate limit exceeded","metadata":{"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1767355209000"}}}}`,
			want: 9 * time.Second,
		},
		{
			name: "google's RetryInfo",
			body: `[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"Resource has been exhausted","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.07s"}]}}]`,
			want: 34070 * time.Millisecond,
		},
		{name: "in the message", body: `{"error":{"message":"Rate limit reached. Please try again in 1m12.5s. Visit the site."}}`, want: 72500 * time.Millisecond},
		{name: "in minutes", body: `{"error":{"message":"Too many requests. Please retry after 5 minutes."}}`, want: 5 * time.Minute},
		{name: "in minutes, short", body: `{"error":{"message":"Try again in 2min"}}`, want: 2 * time.Minute},
		{name: "a gateway's quota", body: `{"message":"Out of call volume quota. Quota will be replenished in 03:23:11."}`, want: 3*time.Hour + 23*time.Minute + 11*time.Second},
		{name: "cloudflare's retry_after", body: `{"title":"Error 522: Connection timed out","status":522,"retry_after":120}`, want: 2 * time.Minute},
		{name: "retry_after as a time", body: `{"error":{"message":"slow","retry_after":"2026-01-02T12:00:40Z"}}`, want: 40 * time.Second},
		{name: "retry_after beside the error", body: `{"error":"slow","retry_after":"7"}`, want: 7 * time.Second},
		{name: "retry_after in the error", body: `{"error":{"message":"slow","retry_after":1.5}}`, want: 1500 * time.Millisecond},
		{name: "in azure's message", body: `{"error":{"message":"Please retry after 20 seconds."}}`, want: 20 * time.Second},
		{name: "explicit before resets", header: map[string]string{"retry-after": "1", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, want: time.Second},
		{name: "resets do not speak of an overload", class: providers.Overloaded, header: map[string]string{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			class, header := test.class, http.Header{}
			if class == "" {
				class = providers.RateLimited
			}
			for name, value := range test.header {
				header.Set(name, value)
			}
			if got := parseFailure([]byte(test.body)).comeBack(class, keep(header), noon); got != test.want {
				t.Errorf("retry after: got %v, want %v", got, test.want)
			}
		})
	}
}

// Times are told by the provider's clock, which may be wrong by hours.
func TestTimesGoByTheProvidersClock(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", "Fri, 02 Jan 2026 12:00:00 GMT")
		w.Header().Set("Retry-After", "Fri, 02 Jan 2026 12:00:09 GMT")
		w.Header().Set("X-Ratelimit-Reset-Requests", "2026-01-02T12:00:07Z")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	failed := fails(t.Context(), t, newClient(t, server.URL))
	if failed.RetryAfter != 9*time.Second || len(failed.Limits) != 1 || failed.Limits[0].Reset != 7*time.Second {
		t.Errorf("got retry after %v and limits %+v, want 9s and a reset in 7s", failed.RetryAfter, failed.Limits)
	}
}
