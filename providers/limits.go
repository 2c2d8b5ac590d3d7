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

// LimitState is what a provider's headers report about one limit. It was true when the provider
// took the request; since then, other calls may have used the remainder.
type LimitState struct {
	Kind   LimitKind     // empty: not said
	Period time.Duration // of the limit; 0: not said, most often a minute
	Limit  int64         // 0: not said
	// Remaining is the unused amount; -1: not reported. Providers that reserve tokens count
	// those of the call as used up to its bound.
	Remaining int64
	// Reset is the time until the limit is whole again, not until it has room
	// for one more; 0: not said, or already.
	Reset time.Duration
}
