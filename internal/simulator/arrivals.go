package simulator

import "time"

// Arrival is one request for a known model.
type Arrival struct {
	At           time.Time `json:"at"`
	Model        string    `json:"model"`
	RejectedBy   string    `json:"rejected_by,omitempty"` // as in Counts; empty: admitted
	InputTokens  int       `json:"input_tokens"`
	OutputTokens int       `json:"output_tokens"`    // of its answer, even if none is sent
	Search       bool      `json:"search,omitempty"` // a search was offered
	JSON         bool      `json:"json,omitempty"`   // JSON was requested, other than in the prompt
	Texts        []string  `json:"texts,omitempty"`  // of its messages, unchanged, if Config.KeepTexts is set
}

// arrivals is a ring of the latest arrivals.
type arrivals struct {
	keep   int
	latest []Arrival
	next   int // position of the oldest, once the ring is full
}

func (a *arrivals) add(arrival Arrival) {
	switch {
	case a.keep == 0:
	case len(a.latest) < a.keep:
		a.latest = append(a.latest, arrival)
	default:
		a.latest[a.next] = arrival
		a.next = (a.next + 1) % a.keep
	}
}

// Arrivals returns the latest arrivals since the start or the last reset, oldest first. It returns
// Config.KeepArrivals at most.
func (s *Simulator) Arrivals() []Arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := append([]Arrival{}, s.arrivals.latest[s.arrivals.next:]...)
	return append(oldest, s.arrivals.latest[:s.arrivals.next]...)
}
