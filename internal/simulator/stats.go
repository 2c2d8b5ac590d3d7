package simulator

import (
	"maps"
	"time"
)

// Stats counts what has arrived since the start or the last reset.
type Stats struct {
	At     time.Time         `json:"at"`
	All    Counts            `json:"all"`
	Models map[string]Counts `json:"models"`          // models at which something has arrived
	Tiers  map[string]Counts `json:"tiers,omitempty"` // those with a bound
	Keys   KeyCounts         `json:"keys"`
}

// Counts are those of one model or of all. The difference of InFlightSeconds between two samples,
// divided by that of At, is the average number of calls in flight.
type Counts struct {
	Arrived         int64     `json:"arrived"`   // requests for a known model
	Answered        int64     `json:"answered"`  // whole answers
	Rejected        int64     `json:"rejected"`  // over a limit
	Failed          int64     `json:"failed"`    // configured failures
	Cut             int64     `json:"cut"`       // answers cut off on purpose
	Abandoned       int64     `json:"abandoned"` // the client left before the answer
	InFlight        int       `json:"in_flight"`
	MaxInFlight     int       `json:"max_in_flight"`
	InFlightSeconds float64   `json:"in_flight_seconds"` // number of calls in flight, integrated over time
	FirstArrival    time.Time `json:"first_arrival,omitzero"`
	LastArrival     time.Time `json:"last_arrival,omitzero"`
	Prompts         int       `json:"prompts"`          // number of different prompts
	PromptsRepeated int       `json:"prompts_repeated"` // of those, the ones that arrived more than once
	PromptsRetaken  int       `json:"prompts_retaken"`  // of those, the ones taken more than once
	// InputTokens and OutputTokens are the usage of calls that have ended.
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	// CachedTokens were read from prompt caches by answered calls, and CacheWriteTokens written to them.
	CachedTokens     int64 `json:"cached_tokens,omitempty"`
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty"`
	// RejectedBy counts by the name of the limit, by "in flight" for MaxInFlight, or by
	// "throttled".
	RejectedBy    map[string]int64 `json:"rejected_by,omitempty"`
	OtherRequests int64            `json:"other_requests,omitempty"` // admitted requests of another client
	// Submitted counts the background jobs begun; they are in flight until they end. Polled counts
	// requests about them, including cancellations, which count towards no limit.
	Submitted int64         `json:"submitted,omitempty"`
	Polled    int64         `json:"polled,omitempty"`
	Limits    []LimitCounts `json:"limits,omitempty"`
	// ChargedUSD is what calls and batches cost: 1 USD per million input tokens and 4 per million output tokens, half of
	// that in a batch. Failures cost nothing.
	ChargedUSD float64     `json:"charged_usd"`
	Batches    BatchCounts `json:"batches,omitzero"`
}

// BatchCounts are the counts of batches. Their requests are in no other count but those of prompts and tokens, and in
// ChargedUSD.
type BatchCounts struct {
	Submitted      int64 `json:"submitted"` // batches that were accepted
	Refused        int64 `json:"refused"`   // batches over a limit, or of invalid requests
	Ended          int64 `json:"ended"`     // of those accepted
	CancelRequests int64 `json:"cancel_requests"`
	Polled         int64 `json:"polled"`   // requests about a batch
	Requests       int64 `json:"requests"` // of the batches that were accepted
	Answered       int64 `json:"answered"`
	Failed         int64 `json:"failed"`
	Expired        int64 `json:"expired"`
	Cancelled      int64 `json:"cancelled"`
	// Enqueued is the number of input tokens in batches that have not ended, and MostEnqueued its maximum.
	Enqueued     int `json:"enqueued_tokens"`
	MostEnqueued int `json:"most_enqueued_tokens"`
}

// LimitCounts are the counts of one rate. The rates are in the order requests, tokens,
// input_tokens, output_tokens.
type LimitCounts struct {
	Limit string `json:"limit"` // its name, for example "tokens 200000/1m0s"
	// Busiest is the maximum that arrived in one window, whether admitted or not: requests, or the
	// tokens that they are charged. Clients kept a sliding or fixed limit if it is not above N, and
	// a bucket's if nothing was rejected.
	Busiest int   `json:"busiest"`
	Charged int64 `json:"charged"` // by admitted requests
}

// Stats returns a consistent snapshot of the counts.
func (s *Simulator) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.settleBatches(now)
	stats := Stats{At: now, All: s.all.snapshot(now), Models: map[string]Counts{}, Keys: s.keys}
	for name, model := range s.models {
		if model.counts.arrived == 0 && model.inUse == 0 && model.batched == (BatchCounts{}) {
			continue
		}
		c := model.snapshot(now)
		stats.Models[name] = c
		stats.All.Prompts += c.Prompts
		stats.All.PromptsRepeated += c.PromptsRepeated
		stats.All.PromptsRetaken += c.PromptsRetaken
	}
	for name, tier := range s.tiers {
		if stats.Tiers == nil {
			stats.Tiers = map[string]Counts{}
		}
		stats.Tiers[name] = tier.snapshot(now)
	}
	return stats
}

func (s *scope) snapshot(now time.Time) Counts {
	c := Counts{
		Arrived:         s.counts.arrived,
		Answered:        s.counts.answered,
		Rejected:        s.counts.rejected,
		Failed:          s.counts.failed,
		Cut:             s.counts.cut,
		Abandoned:       s.counts.abandoned,
		InFlight:        s.inUse,
		MaxInFlight:     s.counts.maxInFlight,
		InFlightSeconds: (s.counts.slotTime + s.sinceChange(now)).Seconds(),
		FirstArrival:    s.counts.first,
		LastArrival:     s.counts.last,
		Prompts:         len(s.prompts),
		InputTokens:     int64(s.counts.used.input),
		OutputTokens:    int64(s.counts.used.output),
		OtherRequests:   s.counts.other,

		CachedTokens: s.counts.cached, CacheWriteTokens: s.counts.cacheWritten,
		Submitted:  s.counts.submitted,
		Polled:     s.counts.polled,
		RejectedBy: maps.Clone(s.counts.rejectedBy),
		ChargedUSD: float64(s.counts.charged) / nano,
		Batches:    s.batched,
	}
	for _, l := range s.limits {
		c.Limits = append(c.Limits, LimitCounts{Limit: l.name(), Busiest: l.busiest.most, Charged: l.charged})
	}
	for _, p := range s.prompts {
		if p.arrived > 1 {
			c.PromptsRepeated++
		}
		if p.taken > 1 {
			c.PromptsRetaken++
		}
	}

	return c
}
