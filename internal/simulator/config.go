package simulator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Config configures the endpoint. The zero value answers at once, without limits or faults. Its
// JSON form is what `evalfleet simulate --settings` reads.
type Config struct {
	Limits           // of the endpoint, for all models together
	Behaviour        // of every model without its own
	Seed      uint64 `json:"seed,omitempty"` // determines everything random
	// Keys are the valid keys. A request with another key, or without one, is refused, and counted
	// only in Stats.Keys. Empty: every request is accepted.
	Keys []string `json:"keys,omitempty"`
	// KeepArrivals is how many of the latest arrivals are kept. 0: none.
	KeepArrivals int `json:"keep_arrivals,omitempty"`
	// KeepTexts also keeps the texts of their messages.
	KeepTexts bool `json:"keep_texts,omitempty"`
	// Models sets limits and behaviour for models by name. It may name further models than careful,
	// average and careless; those judge like average.
	Models map[string]Model `json:"models,omitempty"`
	// Tiers is the capacity of service tiers, such as flex, in calls in flight of all models; 0: none. OpenAI's
	// dialects refuse a call beyond it with 429, without a hint. A tier that is absent has no bound.
	Tiers map[string]int `json:"tiers,omitempty"`
}

// Model is one model's own settings.
type Model struct {
	Limits               // in addition to the endpoint's
	Behaviour *Behaviour `json:"behaviour,omitempty"` // nil: the endpoint's
}

// Limits are enforced strictly: a request over one gets a 429 at once, and counts towards none. A
// request that costs more than a limit can ever admit always gets a 429, without a retry hint.
//
// The input tokens of a request are, for each message, a quarter of its bytes plus 4. The output
// tokens of an answer are a quarter of its bytes, or what Behaviour.AnswerTokens draws. A failure
// has none. An answer that hangs, is cut off or loses its client has all of them.
type Limits struct {
	// MaxInFlight bounds the calls from a request's arrival to the last byte of its answer, or to
	// the moment when its client left. 0: no bound.
	MaxInFlight  int    `json:"max_in_flight,omitempty"`
	Requests     Rates  `json:"requests,omitempty"`
	Tokens       Rates  `json:"tokens,omitempty"` // input and output together
	InputTokens  Rates  `json:"input_tokens,omitempty"`
	OutputTokens Rates  `json:"output_tokens,omitempty"`
	Charge       Charge `json:"charge,omitempty"` // of the output tokens; empty: the endpoint's
	// OtherRequests simulates requests of another client of the same account, evenly spaced. They
	// take the available room and are visible only in the remainder of the limits. Each has
	// OtherTokens, half of them output.
	OtherRequests Rate `json:"other_requests,omitzero"`
	OtherTokens   int  `json:"other_tokens,omitempty"`
	// EnqueuedTokens bounds the input tokens in batches that have not ended. A batch over it is refused. 0: no bound.
	EnqueuedTokens int `json:"enqueued_tokens,omitempty"`
}

// Charge says how many output tokens a request is charged, and when.
type Charge string

// The ways to charge. A request without max_completion_tokens (or max_tokens) reserves what it will
// use.
const (
	Actual  Charge = "actual"  // on arrival, what the answer will use; the default
	Reserve Charge = "reserve" // on arrival, max_completion_tokens, whatever is used
	Settle  Charge = "settle"  // on arrival, max_completion_tokens; at the end, what was used
)

// Behaviour says how a model answers. Shares are between 0 and 1. They are drawn for each call from
// the seed, the prompt and how often that prompt was taken before. So they do not depend on the
// order in which calls arrive.
//
// An answer that AnswerTokens makes longer than its text has the rest as reasoning. The CachedShare
// of a prompt's tokens is cached when it is first taken, and read from the cache from then on.
// These tokens count like others.
type Behaviour struct {
	// Serves is the model that answers in place of this one, and is named in the answers; empty: this one does.
	Serves         string  `json:"serves,omitempty"`
	Latency        Span    `json:"latency,omitzero"`          // until the answer
	AnswerTokens   Range   `json:"answer_tokens,omitzero"`    // output tokens of an answer; 0: those of its text
	FailRate       float64 `json:"fail_rate,omitempty"`       // share of calls answered with FailStatus
	FailEvery      int     `json:"fail_every,omitempty"`      // one prompt in so many fails, the first time; 0: none
	FailStatus     int     `json:"fail_status,omitempty"`     // 400 to 599; 0: 500
	FailAs         Failure `json:"fail_as,omitempty"`         // the failure, in the dialect's words; empty: FailStatus
	HangRate       float64 `json:"hang_rate,omitempty"`       // share of calls never answered
	CutRate        float64 `json:"cut_rate,omitempty"`        // share of answers cut off in the middle of the body
	MalformedRate  float64 `json:"malformed_rate,omitempty"`  // share of answers with text other than the requested one
	RefuseRate     float64 `json:"refuse_rate,omitempty"`     // share of answers that decline
	FilterRate     float64 `json:"filter_rate,omitempty"`     // share of answers removed by a filter
	TruncateRate   float64 `json:"truncate_rate,omitempty"`   // share of answers that end halfway, as at a bound
	UngroundedRate float64 `json:"ungrounded_rate,omitempty"` // share of answers without a search, if offered
	UnreasonedRate float64 `json:"unreasoned_rate,omitempty"` // share of answers without reasoning
	LoseRate       float64 `json:"lose_rate,omitempty"`       // share of background jobs and batches that are lost
	WithoutSchemas bool    `json:"without_schemas,omitempty"` // refuse JSON schemas with 400
	WithoutSystem  bool    `json:"without_system,omitempty"`  // refuse system messages with 400
	// SearchWithJSON says how search and JSON go together; empty: as in the dialect. Gemini before
	// 3 refuses the combination, all others allow it.
	SearchWithJSON SearchWithJSON `json:"search_with_json,omitempty"`
	Pauses         int            `json:"pauses,omitempty"`         // pauses during a search, if the dialect has that
	ContextWindow  int            `json:"context_window,omitempty"` // tokens of input and output; 0: unlimited
	CachedShare    float64        `json:"cached_share,omitempty"`   // share of a prompt's tokens that is cached
	// PromptCache simulates the vendor's prompt cache; nil: only CachedShare does.
	PromptCache    *PromptCache `json:"prompt_cache,omitempty"`
	OmitEntries    int          `json:"omit_entries,omitempty"`    // number of last scores left out
	CorruptEntries int          `json:"corrupt_entries,omitempty"` // number of first scores replaced by a word
	AnswerBytes    int          `json:"answer_bytes,omitempty"`    // pad the text to so many; its tokens stay
	Trickle        Span         `json:"trickle,omitzero"`          // from the first byte of an answer to its last
	BatchTime      Span         `json:"batch_time,omitzero"`       // until a batch ends
	// BatchWindow is after how long a batch ends at the latest; the lower end counts. 0: 24 hours.
	BatchWindow Span `json:"batch_window,omitzero"`
	// BatchListDelay is how long a new batch is missing in lists; the lower end counts.
	BatchListDelay  Span    `json:"batch_list_delay,omitzero"`
	BatchExpireRate float64 `json:"batch_expire_rate,omitempty"` // share of a batch's requests that expire

	// The Throttle fields cause answers of 429 although no limit is exceeded, as if other clients
	// of the account had reached one.
	ThrottleRate    float64 `json:"throttle_rate,omitempty"`   // share of requests
	ThrottleEvery   int     `json:"throttle_every,omitempty"`  // one in so many requests; 0: none
	ThrottleBetween Span    `json:"throttle_between,omitzero"` // all requests between these times after the start

	RetryAfter          Span   `json:"retry_after,omitzero"`            // hint of 429s and failures; 0: the real wait
	Vendor              Vendor `json:"vendor,omitempty"`                // imitated in OpenAI's dialects; empty: OpenAI
	Hints               Hint   `json:"hints,omitempty"`                 // how the hint is sent
	WithoutLimitHeaders bool   `json:"without_limit_headers,omitempty"` // send no X-Ratelimit-… headers
}

// SearchWithJSON says how a model handles a request for search and JSON at once.
type SearchWithJSON string

// The ways to handle it: search and answer in JSON, answer 400, or answer in JSON without a search
// and without saying so.
const (
	SearchAllowed SearchWithJSON = "allowed"
	SearchRefused SearchWithJSON = "refused"
	SearchIgnored SearchWithJSON = "ignored"
)

// Hint says which headers tell the client when to come back.
type Hint string

// The ways to hint: Retry-After-Ms and Retry-After in seconds, only the seconds (rounded up), or
// none.
const (
	HintBoth    Hint = "both" // the default
	HintSeconds Hint = "seconds"
	HintNone    Hint = "none"
)

// Validate returns all problems of the Config as one error; nil: it is valid.
func (c Config) Validate() error {
	problems := []error{c.Limits.validate(""), c.Behaviour.validate("")}
	if slices.Contains(c.Keys, "") {
		problems = append(problems, errors.New("keys: one is empty"))
	}
	if c.KeepArrivals < 0 {
		problems = append(problems, fmt.Errorf("keep_arrivals: %d: want 0 or more", c.KeepArrivals))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tiers)) {
		if c.Tiers[name] < 0 {
			problems = append(problems, fmt.Errorf("tiers: %s: %d: want 0 or more", name, c.Tiers[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		model := c.Models[name]
		problems = append(problems, model.validate("model "+name+": "))
		if model.Behaviour != nil {
			problems = append(problems, model.Behaviour.validate("model "+name+": "))
		}
	}
	return errors.Join(problems...)
}

func (l Limits) validate(where string) error {
	var problems []error
	if l.MaxInFlight < 0 {
		problems = append(problems, fmt.Errorf("%smax_in_flight: %d: want 0 or more", where, l.MaxInFlight))
	}
	for _, counted := range quantities {
		for _, rate := range l.rates(counted) {
			if err := rate.validate(); err != nil {
				problems = append(problems, fmt.Errorf("%s%s: %w", where, counted, err))
			}
		}
	}

	if other := l.OtherRequests; other != (Rate{}) && (other.validate() != nil || other.Shape != "") {
		problems = append(problems, fmt.Errorf("%sother_requests: %s: want a rate like 5/1s", where, other))
	}
	if l.OtherTokens < 0 {
		problems = append(problems, fmt.Errorf("%sother_tokens: %d: want 0 or more", where, l.OtherTokens))
	}
	if l.EnqueuedTokens < 0 {
		problems = append(problems, fmt.Errorf("%senqueued_tokens: %d: want 0 or more", where, l.EnqueuedTokens))
	}
	switch l.Charge {
	case "", Actual, Reserve, Settle:
	default:
		problems = append(problems, fmt.Errorf("%scharge: %q: want actual, reserve or settle", where, l.Charge))
	}

	return errors.Join(problems...)
}

func (b Behaviour) validate(where string) error {
	var problems []error
	for _, share := range []struct {
		name  string
		value float64
	}{
		{"fail_rate", b.FailRate}, {"hang_rate", b.HangRate}, {"cut_rate", b.CutRate}, {"malformed_rate", b.MalformedRate},
		{"throttle_rate", b.ThrottleRate}, {"refuse_rate", b.RefuseRate}, {"filter_rate", b.FilterRate}, {"truncate_rate", b.TruncateRate},
		{"ungrounded_rate", b.UngroundedRate}, {"unreasoned_rate", b.UnreasonedRate}, {"cached_share", b.CachedShare}, {"lose_rate", b.LoseRate},
		{"batch_expire_rate", b.BatchExpireRate},
	} {
		if !(share.value >= 0 && share.value <= 1) {
			problems = append(problems, fmt.Errorf("%s%s: %v: want 0 to 1", where, share.name, share.value))
		}
	}

	for _, span := range []struct {
		name  string
		value Span
	}{{"latency", b.Latency}, {"retry_after", b.RetryAfter}, {"throttle_between", b.ThrottleBetween}, {"trickle", b.Trickle},
		{"batch_time", b.BatchTime}, {"batch_window", b.BatchWindow},
		{"batch_list_delay", b.BatchListDelay}} {
		if span.value.Min < 0 || span.value.Max < span.value.Min {
			problems = append(problems, fmt.Errorf("%s%s: %v..%v: want a range", where, span.name, span.value.Min, span.value.Max))
		}
	}

	if r := b.AnswerTokens; r != (Range{}) && (r.Min < 1 || r.Max < r.Min) {
		problems = append(problems, fmt.Errorf("%sanswer_tokens: %d..%d: want a range above 0", where, r.Min, r.Max))
	}
	for _, number := range []struct {
		name  string
		value int
	}{
		{"fail_every", b.FailEvery}, {"throttle_every", b.ThrottleEvery}, {"pauses", b.Pauses},
		{"context_window", b.ContextWindow}, {"answer_bytes", b.AnswerBytes},
		{"omit_entries", b.OmitEntries}, {"corrupt_entries", b.CorruptEntries},
	} {
		if number.value < 0 {
			problems = append(problems, fmt.Errorf("%s%s: %d: want 0 or more", where, number.name, number.value))
		}
	}

	switch b.SearchWithJSON {
	case "", SearchAllowed, SearchRefused, SearchIgnored:
	default:
		problems = append(problems, fmt.Errorf("%ssearch_with_json: %q: want allowed, refused or ignored", where, b.SearchWithJSON))
	}

	if p := b.PromptCache; p != nil && (p.Life.Min <= 0 || p.Minimum < 0 || !slices.Contains(manners, p.Manner)) {
		problems = append(problems, fmt.Errorf("%sprompt_cache: want life above 0, minimum 0 or more, and a manner of %q", where, manners))
	}
	if b.FailAs != "" && !slices.Contains(failures, b.FailAs) {
		problems = append(problems, fmt.Errorf("%sfail_as: %q: want one of %v", where, b.FailAs, failures))
	}
	if b.FailAs != "" && b.FailStatus != 0 {
		problems = append(problems, fmt.Errorf("%sfail_as and fail_status: set only one of them", where))
	}
	if !slices.Contains(vendors, b.Vendor) {
		problems = append(problems, fmt.Errorf("%svendor: %q: want openai, azure, openrouter or compatible", where, b.Vendor))
	}
	switch b.Hints {
	case "", HintBoth, HintSeconds, HintNone:
	default:
		problems = append(problems, fmt.Errorf("%shints: %q: want both, seconds or none", where, b.Hints))
	}

	if b.FailStatus != 0 && (b.FailStatus < 400 || b.FailStatus > 599) {
		problems = append(problems, fmt.Errorf("%sfail_status: %d: want 400 to 599", where, b.FailStatus))
	}
	return errors.Join(problems...)
}
