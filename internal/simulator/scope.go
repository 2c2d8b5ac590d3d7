package simulator

import (
	"fmt"
	"time"
)

// scope holds shared limits and counts: those of the endpoint or of one model.
type scope struct {
	tier        string // "": it is no tier
	maxInFlight int    // 0: no bound, but of a tier no capacity
	limits      []*limit
	charge      Charge
	other       *otherClient // nil: none
	inUse       int          // calls in flight
	changed     time.Time
	counts      counts
	prompts     map[uint64]*promptCount // of a model; nil for the endpoint

	mostEnqueued int // tokens in batches; 0: no bound
	batched      BatchCounts
}

type counts struct {
	arrived, answered, rejected, failed, abandoned, cut int64
	rejectedBy                                          map[string]int64
	maxInFlight                                         int
	slotTime                                            time.Duration // integral of inUse
	first, last                                         time.Time     // arrivals
	used                                                spending      // by calls that have ended
	other                                               int64         // admitted requests of another client
	submitted, polled                                   int64         // background jobs, and polls of them
	cached, cacheWritten                                int64         // tokens of answered calls
	charged                                             int64         // nano-USD
}

// promptCount counts the arrivals of one prompt, and those that were taken.
type promptCount struct{ arrived, taken uint32 }

func newScope(limits Limits, now time.Time) *scope {
	return &scope{
		maxInFlight: limits.MaxInFlight,
		limits:      newLimits(limits),
		charge:      limits.Charge,
		other:       newOtherClient(limits, now),
		counts:      counts{rejectedBy: map[string]int64{}},

		mostEnqueued: limits.EnqueuedTokens,
	}
}

// charges returns what a call is charged on arrival.
func (s *scope) charges(c *call) spending {
	if (s.charge == Reserve || s.charge == Settle) && c.req.bound > 0 {
		return spending{input: c.spends.input, output: c.req.bound}
	}
	return c.spends
}

func (s *scope) arrive(now time.Time, c *call) {
	s.other.until(now, s)
	s.counts.arrived++
	if s.counts.first.IsZero() {
		s.counts.first = now
	}
	s.counts.last = now
	for _, l := range s.limits {
		l.busiest.note(now, s.charges(c).of(l.counted))
	}
}

// refuses returns the refusal of a limit that has no room, of several the one with the longest
// wait; nil: all have room.
func (s *scope) refuses(now time.Time, c *call) (longest *refusal) {
	if s.tier != "" && s.inUse >= s.maxInFlight {
		return &refusal{limit: "tier " + s.tier, tier: s.tier}
	}
	if s.tier == "" && s.maxInFlight > 0 && s.inUse >= s.maxInFlight {
		longest = &refusal{
			limit: "in flight", counted: callsAtOnce,
			message: fmt.Sprintf("Too many concurrent requests: limit %d", s.maxInFlight),
		}
	}
	for _, l := range s.limits {
		longest = longer(longest, l.refuses(now, s.charges(c)))
	}
	return longest
}

func (s *scope) reject(r *refusal) {
	s.counts.rejected++
	s.counts.rejectedBy[r.limit]++
}

func (s *scope) take(now time.Time, c *call) {
	s.use(now, 1)
	for _, l := range s.limits {
		l.take(now, s.charges(c))
	}
}

// leave ends a call that was taken.
func (s *scope) leave(now time.Time, c *call, ended outcome) {
	s.other.until(now, s)
	s.use(now, -1)
	s.counts.used.input += c.spends.input
	s.counts.used.output += c.spends.output

	if ended != failed {
		s.counts.charged += c.charge()
	}
	if s.charge == Settle {
		for _, l := range s.limits {
			l.settle(now, c.admitted, s.charges(c), c.spends)
		}
	}

	switch ended {
	case answered:
		s.counts.answered++
		s.counts.cached += int64(c.plan.cached)
		s.counts.cacheWritten += int64(c.plan.cachedNow)
	case failed:
		s.counts.failed++
	case cut:
		s.counts.cut++
	case abandoned:
		s.counts.abandoned++
	}
}

// use changes the number of calls in flight.
func (s *scope) use(now time.Time, by int) {
	s.counts.slotTime += s.sinceChange(now)
	s.changed = now
	s.inUse += by
	s.counts.maxInFlight = max(s.counts.maxInFlight, s.inUse)
}

func (s *scope) sinceChange(now time.Time) time.Duration {
	return time.Duration(s.inUse) * now.Sub(s.changed)
}

// reset clears the counts; calls in flight and the state of limits stay.
func (s *scope) reset(now time.Time) {
	s.counts = counts{maxInFlight: s.inUse, rejectedBy: map[string]int64{}}
	s.changed = now
	s.batched = BatchCounts{Enqueued: s.batched.Enqueued, MostEnqueued: s.batched.Enqueued}
	for _, l := range s.limits {
		l.busiest.forget()
		l.charged, l.since = 0, now
	}
	if s.prompts != nil {
		s.prompts = map[uint64]*promptCount{}
	}
}
