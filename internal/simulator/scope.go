package simulator

import "time"

// scope is what is limited and counted together: the endpoint or one model.
type scope struct {
	limits  Limits
	window  window // nil: no rate
	inUse   int    // calls in flight
	changed time.Time
	counts  counts
	busiest busiest
	prompts map[uint64]*promptCount // of a model; nil for the endpoint
}

type counts struct {
	arrived, answered, rejected, failed, abandoned, cut int64
	maxInFlight                                         int
	slotTime                                            time.Duration // integral of inUse
	first, last                                         time.Time     // arrivals
}

// promptCount counts the arrivals of one prompt, and those that were taken.
type promptCount struct{ arrived, taken uint32 }

func newScope(limits Limits) *scope {
	return &scope{
		limits:  limits,
		window:  newWindow(limits.Requests),
		busiest: busiest{fixed: limits.Requests.Shape == Fixed, length: limits.Requests.Window},
	}
}

func (s *scope) arrive(now time.Time) {
	s.counts.arrived++
	if s.counts.first.IsZero() {
		s.counts.first = now
	}
	s.counts.last = now
	if s.window != nil {
		s.busiest.note(now)
	}
}

// refuses names the limit that has no room, and how long it will have none where
// that is known.
func (s *scope) refuses(now time.Time) (limit string, wait time.Duration) {
	if s.limits.MaxInFlight > 0 && s.inUse >= s.limits.MaxInFlight {
		return "concurrent requests", 0
	}
	if s.window != nil {
		if wait := s.window.wait(now); wait > 0 {
			return "requests", wait
		}
	}
	return "", 0
}

func (s *scope) take(now time.Time) {
	s.use(now, 1)
	if s.window != nil {
		s.window.take(now)
	}
}

// use changes how many calls are in flight.
func (s *scope) use(now time.Time, by int) {
	s.counts.slotTime += s.sinceChange(now)
	s.changed = now
	s.inUse += by
	s.counts.maxInFlight = max(s.counts.maxInFlight, s.inUse)
}

func (s *scope) sinceChange(now time.Time) time.Duration {
	return time.Duration(s.inUse) * now.Sub(s.changed)
}

// reset forgets what was counted; calls in flight and the limits' memory stay.
func (s *scope) reset(now time.Time) {
	s.counts = counts{maxInFlight: s.inUse}
	s.changed = now
	s.busiest.most, s.busiest.arrived = 0, nil
	if s.prompts != nil {
		s.prompts = map[uint64]*promptCount{}
	}
}
