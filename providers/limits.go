package providers

import "time"

// LimitKind is what a provider's limit counts.
type LimitKind string

// The kinds of limits that providers report.
const (
	LimitRequests     LimitKind = "requests"
	LimitTokens       LimitKind = "tokens" // input and output together
	LimitInputTokens  LimitKind = "input_tokens"
	LimitOutputTokens LimitKind = "output_tokens"
	LimitConcurrency  LimitKind = "concurrency" // named by errors, never by headers
)

// LimitState is what a provider's headers report about one limit. It was true when the provider received the request;
// since then, other calls may have used the remainder.
type LimitState struct {
	Kind   LimitKind     // empty: not reported
	Period time.Duration // of the limit; 0: not reported, most often a minute
	Limit  int64         // 0: not reported
	// Remaining is the unused amount; -1: not reported. Providers that reserve tokens count those of the call as used
	// up to its bound.
	Remaining int64
	// Reset is the time until the limit is completely unused again, not until it has room for one more call; 0: not
	// reported, or already.
	Reset time.Duration
}
