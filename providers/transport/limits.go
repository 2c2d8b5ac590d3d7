package transport

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/evalfleet/evalfleet/providers"
)

// headerKinds are the names of limits in headers.
var headerKinds = []struct {
	name string
	kind providers.LimitKind
}{
	{"Requests", providers.LimitRequests},
	{"Tokens", providers.LimitTokens},
	{"Input-Tokens", providers.LimitInputTokens},
	{"Output-Tokens", providers.LimitOutputTokens},
}

// headerPeriods follow a kind where a vendor (Cerebras) limits several.
var headerPeriods = []struct {
	suffix string
	period time.Duration
}{
	{"", 0}, {"-Second", time.Second}, {"-Minute", time.Minute}, {"-Hour", time.Hour}, {"-Day", 24 * time.Hour},
}

// Limits are what the answer's headers say of limits, in OpenAI's style
// (x-ratelimit-limit-requests) or Anthropic's (anthropic-ratelimit-requests-limit).
func (a *Answer) Limits() []providers.LimitState {
	var states []providers.LimitState
	for _, kind := range headerKinds {
		for _, period := range headerPeriods {
			name := kind.name + period.suffix
			states = a.addLimit(states, kind.kind, period.period, "X-Ratelimit-Limit-"+name, "X-Ratelimit-Remaining-"+name, "X-Ratelimit-Reset-"+name)
		}
		name := "Anthropic-Ratelimit-" + kind.name
		states = a.addLimit(states, kind.kind, 0, name+"-Limit", name+"-Remaining", name+"-Reset")
	}
	return states
}

func (a *Answer) addLimit(states []providers.LimitState, kind providers.LimitKind, period time.Duration, limit, remaining, reset string) []providers.LimitState {
	state := providers.LimitState{
		Kind:      kind,
		Period:    period,
		Limit:     max(whole(a.Header, limit), 0),
		Remaining: whole(a.Header, remaining),
		Reset:     min(max(resetIn(a.Header.Get(reset), a.received), 0), maxHint),
	}
	if state.Limit == 0 && state.Remaining < 0 && state.Reset == 0 {
		return states
	}
	return append(states, state)
}

// whole is a header's number, without its fraction; -1 where it has none, or one
// below 0 (Azure sends -1 for unknown).
func whole(h http.Header, name string) int64 {
	n, err := strconv.ParseFloat(h.Get(name), 64)
	if err != nil || !(n >= 0) {
		return -1
	}
	return int64(math.Min(n, math.MaxInt32*1e6)) // within what int64 and float64 both hold
}

// exhausted is the kind of the only limit of which nothing is left.
func exhausted(states []providers.LimitState) (kind providers.LimitKind) {
	for _, state := range states {
		if state.Remaining == 0 {
			if kind != "" && kind != state.Kind {
				return ""
			}
			kind = state.Kind
		}
	}
	return kind
}

// exceeded is the kind of limit that the body names: by a code of its own
// (OpenAI's type, Cerebras' code), by Google's quota ids or in words.
func (f failure) exceeded() providers.LimitKind {
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
	for _, text := range append(f.quotas, f.message) {
		for _, named := range namedLimits {
			if named.words.MatchString(text) {
				return named.kind
			}
		}
	}
	return ""
}

// namedLimits are tried in order: who says "input tokens per minute" says
// "tokens per minute", too.
var namedLimits = []struct {
	kind  providers.LimitKind
	words *regexp.Regexp
}{
	{providers.LimitConcurrency, regexp.MustCompile(`(?i)concurren|parallel requests`)},
	{providers.LimitInputTokens, regexp.MustCompile(`(?i)input[ _]?tokens?`)},
	{providers.LimitOutputTokens, regexp.MustCompile(`(?i)output[ _]?tokens?`)},
	{providers.LimitTokens, regexp.MustCompile(`(?i)tokens?[ _]?(?:per|rate)|per[- ]minute tokens|request tokens|token quota|\bTP[MHD]\b`)},
	{providers.LimitRequests, regexp.MustCompile(`(?i)requests?[ _]?(?:per|rate)|call rate|_requests\b|models?-per-(?:day|min)|\bRP[SMHD]\b`)},
}
