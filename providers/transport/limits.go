package transport

import (
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evalfleet/evalfleet/providers"
)

// headerLimit is a limit described by up to three headers.
type headerLimit struct {
	kind                    providers.LimitKind
	period                  time.Duration
	limit, remaining, reset string
}

// headerLimits lists the limits in headers that vendors are known to send.
var headerLimits = func() []headerLimit {
	limits := []headerLimit{
		{
			"", 0, "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset",
		}, // OpenRouter, Together
		{
			providers.LimitRequests, time.Minute, "X-Ratelimit-Limit-Req-Minute", "X-Ratelimit-Remaining-Req-Minute",
			"X-Ratelimit-Reset-Req-Minute",
		}, // Mistral
	}
	periods := []struct {
		suffix string
		period time.Duration
	}{
		{"", 0}, {"-Second", time.Second}, {"-Minute", time.Minute}, {"-Hour", time.Hour}, {"-Day", 24 * time.Hour},
	}
	for _, kind := range []struct {
		name string
		kind providers.LimitKind
	}{
		{"Requests", providers.LimitRequests},
		{"Tokens", providers.LimitTokens},
		{"Input-Tokens", providers.LimitInputTokens},
		{"Output-Tokens", providers.LimitOutputTokens},
	} {
		for _, period := range periods { // OpenAI; with a period Cerebras
			name := kind.name + period.suffix
			limits = append(
				limits,
				headerLimit{kind.kind, period.period, "X-Ratelimit-Limit-" + name, "X-Ratelimit-Remaining-" + name, "X-Ratelimit-Reset-" + name},
			)
		}
		name := "Anthropic-Ratelimit-" + kind.name
		limits = append(limits, headerLimit{kind.kind, 0, name + "-Limit", name + "-Remaining", name + "-Reset"})
	}
	return limits
}()

// Limits returns what the answer's headers say about limits.
func (a *Answer) Limits() []providers.LimitState {
	var states []providers.LimitState
	for _, l := range headerLimits {
		state := providers.LimitState{
			Kind:      l.kind,
			Period:    l.period,
			Limit:     max(whole(a.Header, l.limit), 0),
			Remaining: whole(a.Header, l.remaining),
			Reset:     min(max(wait(a.Header.Get(l.reset), a.sent), 0), maxHint),
		}
		if state.Limit > 0 || state.Remaining >= 0 || state.Reset > 0 {
			states = append(states, state)
		}
	}
	return states
}

// whole returns the number in a header, without its fraction; -1 if it has none, or a negative one (Azure sends -1 for
// unknown).
func whole(h http.Header, name string) int64 {
	value := h.Get(name)
	if value == "" {
		return -1
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || !(n >= 0) {
		return -1
	}
	return int64(math.Min(n, math.MaxInt32*1e6)) // exact in both int64 and float64
}

// exhausted returns the kind of the exhausted limits, if there is exactly one kind; "" otherwise.
func exhausted(states []providers.LimitState) providers.LimitKind {
	var kinds []providers.LimitKind
	for _, state := range states {
		if state.Remaining == 0 && !slices.Contains(kinds, state.Kind) {
			kinds = append(kinds, state.Kind)
		}
	}
	if len(kinds) != 1 {
		return ""
	}
	return kinds[0]
}

// exceeded returns the kind of limit that the body names: by a code of its own (OpenAI's type, Cerebras' code), by
// Google's quota IDs or in words; "": none.
func (f failure) exceeded(class providers.Class) providers.LimitKind {
	for _, code := range f.codes {
		switch code {
		case "requests", "request_quota_exceeded":
			return providers.LimitRequests
		case "tokens", "token_quota_exceeded":
			return providers.LimitTokens
		case "input_tokens":
			return providers.LimitInputTokens
		case "output_tokens":
			return providers.LimitOutputTokens
		case "concurrency":
			return providers.LimitConcurrency
		}
	}

	for _, text := range append(f.quotas, f.words()) {
		if class == providers.QuotaDaily && strings.Contains(text, "PerMinute") {
			continue // met too, but not what closed the day
		}
		for _, named := range namedLimits {
			if named.words.MatchString(text) {
				return named.kind
			}
		}
	}

	return ""
}

// namedLimits are tried in order: a text with "input tokens per minute" also contains "tokens per minute".
var namedLimits = []struct {
	kind  providers.LimitKind
	words *regexp.Regexp
}{
	{providers.LimitEnqueuedTokens, enqueued},
	{providers.LimitConcurrency, regexp.MustCompile(`(?i)concurren|parallel requests`)},
	{providers.LimitInputTokens, regexp.MustCompile(`(?i)input[ _]?tokens?`)},
	{providers.LimitOutputTokens, regexp.MustCompile(`(?i)output[ _]?tokens?`)},
	{
		providers.LimitTokens,
		regexp.MustCompile(`(?i)tokens?[ _]?(?:per|rate)|per[- ]minute tokens|request tokens|token quota|too many tokens|\bTP[MHD]\b`),
	},
	{
		providers.LimitRequests,
		regexp.MustCompile(`(?i)(?:requests?|queries)[ _]?(?:per|rate)|call (?:rate|volume)|_requests\b|models?-per-(?:day|min)|\bRP[SMHD]\b`),
	},
}

// enqueued matches the words about the limit of tokens in batches.
var enqueued = regexp.MustCompile(`(?i)enqueued[ _-]?tokens?`)
