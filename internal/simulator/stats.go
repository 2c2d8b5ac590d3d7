package simulator

import (
	"maps"
	"time"
)

// Stats is what arrived since the start or the last reset.
type Stats struct {
	At     time.Time         `json:"at"`
	All    Counts            `json:"all"`
	Models map[string]Counts `json:"models"` // those at which something arrived
	Keys   KeyCounts         `json:"keys"`
}

// Counts are those of one model or of all. Between two samples, the difference
// of InFlightSeconds divided by that of At is how many calls were in flight on
// average.
type Counts struct {
	Arrived         int64     `json:"arrived"`   // requests for a known model
	Answered        int64     `json:"answered"`  // whole answers
	Rejected        int64     `json:"rejected"`  // over a limit
	Failed          int64     `json:"failed"`    // failures that were asked for
	Cut             int64     `json:"cut"`       // answers cut off on purpose
	Abandoned       int64     `json:"abandoned"` // the client left before the answer
	InFlight        int       `json:"in_flight"`
	MaxInFlight     int       `json:"max_in_flight"`
	InFlightSeconds float64   `json:"in_flight_seconds"` // in flight, integrated over time
	FirstArrival    time.Time `json:"first_arrival,omitzero"`
	LastArrival     time.Time `json:"last_arrival,omitzero"`
	Prompts         int       `json:"prompts"`          // different ones
	PromptsRepeated int       `json:"prompts_repeated"` // arrived more than once
	PromptsRetaken  int       `json:"prompts_retaken"`  // taken, not rejected, more than once
	// InputTokens and OutputTokens were used by calls that have ended.
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	// RejectedBy counts by the name of the limit, "in flight" for that on calls
	// in flight, or "throttled".
	RejectedBy    map[string]int64 `json:"rejected_by,omitempty"`
	OtherRequests int64            `json:"other_requests,omitempty"` // admitted, of another client
	// Submitted are background jobs that were begun; they are in flight until they
	// end. Polled are questions about them, cancellations among them, which count
	// towards no limit.
	Submitted int64         `json:"submitted,omitempty"`
	Polled    int64         `json:"polled,omitempty"`
	Limits    []LimitCounts `json:"limits,omitempty"`
}

// LimitCounts are those of one rate, in the order requests, tokens,
// input_tokens, output_tokens.
type LimitCounts struct {
	Limit string `json:"limit"` // its name, for example "tokens 200000/1m0s"
	// Busiest is the most that arrived in one window, whether admitted or not:
	// requests, or the tokens that they are charged. Clients kept a sliding or
	// fixed limit if it is not above N; a bucket's if nothing was rejected.
	Busiest int   `json:"busiest"`
	Charged int64 `json:"charged"` // of requests admitted
}

// Stats is a consistent picture of this moment.
func (s *Simulator) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	stats := Stats{At: now, All: s.all.snapshot(now), Models: map[string]Counts{}, Keys: s.keys}
	for name, model := range s.models {
		if model.counts.arrived == 0 && model.inUse == 0 {
			continue
		}
		c := model.snapshot(now)
		stats.Models[name] = c
		stats.All.Prompts += c.Prompts
		stats.All.PromptsRepeated += c.PromptsRepeated
		stats.All.PromptsRetaken += c.PromptsRetaken
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
		Submitted:       s.counts.submitted,
		Polled:          s.counts.polled,
		RejectedBy:      maps.Clone(s.counts.rejectedBy),
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
