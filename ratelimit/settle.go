package ratelimit

import "time"

// Settlement says how a call ended, as far as its limits are concerned. The zero Settlement says nothing: the call
// keeps its reservation, and no limit changes.
//
// A refusal cuts the narrowest of the call's adaptive limits to seven tenths of the calls in flight under it, or of the
// limit if that is less, and at least one. If the provider named a kind that bounds calls or tokens started, and the
// call has such a limit in force, that limit handles the refusal and nothing is cut.
//
// All calls that started before a cut belong to one episode and cut no further, in any process: their refusals say
// nothing about the limit as it is now. Provider hints do not affect this: a long Retry-After starts a cooldown
// (Lease.Cool) and delays no cut. If no other call was in flight, the refused call was not one too many and cuts
// nothing. A call under a closed limit cuts nothing either.
//
// A limit grows again by one call, or a fiftieth of its cap, after as many answered calls as it allows. Only calls that
// started since the cut, and ended while all of its leases were taken, count: a limit that is not used up gives no
// evidence. It never grows beyond its cap. A cut is forgotten an hour after the last call under the limit was answered
// or refused, so unused limits leave nothing behind.
//
// Additive increase and multiplicative decrease follow D.-M. Chiu and R. Jain, Analysis of the Increase and Decrease
// Algorithms for Congestion Avoidance in Computer Networks, 1989. The other choices follow congestion control: a cut of
// the calls in flight (RFC 5681, 3.1), to 0.7 of them (RFC 9438, 4.6), once for everything sent before it (RFC 6582),
// and no growth while the limit is not fully used (RFC 7661).
type Settlement struct {
	// Used holds what the call really used. nil: unknown, and the call keeps its reservation.
	//
	// Usage beyond the reservation becomes a debt. Excess reservations go back to budgets, and to windows unless the
	// provider charges the reservation (Limit.Charged). A bucket gives nothing back, because the tokens left in it may
	// have been lost since, when the bucket was full.
	Used *Used
	// Answered means that the provider answered the call. Adaptive limits that were cut grow with such answers.
	Answered bool
	// Refused means that the provider refused the call because of too many requests or overload.
	Refused bool
	// Exceeded is the kind of limit that the provider named when it refused the call; "": none.
	Exceeded Kind
	// Left holds what the provider's headers say is left of a minute's calls or tokens. If that is less than this
	// limiter would give, the limit is tightened to it: others use the account too, or the provider counts differently.
	// It is never loosened, because headers are old when they arrive.
	Left []Left
}

// Left says how many calls or tokens are left of a minute's limit, according to the provider.
type Left struct {
	Kind  Kind
	Units int64 // less than 0 counts as 0
}

// Settle records how the call ended. Call it once, before the lease ends: afterwards it has no effect. Redis learns of
// it with the end of the lease. A call that is not settled keeps its reservation.
func (e *Lease) Settle(s Settlement) {
	e.limiter.mu.Lock()
	defer e.limiter.mu.Unlock()
	if s.Used != nil {
		e.more = s.Used.minus(e.reserved)
	}
	e.answered = s.Answered
	if s.Refused {
		e.refused = e.tooHigh(s.Exceeded)
	}
	for _, left := range s.Left {
		e.remaining = append(e.remaining, e.leftOf(left)...)
	}
}

// remaining is how much of a limit is left according to the provider.
type remaining struct {
	rule  *rule
	units int64
}

// leftOf returns the limits of the call that a provider's header is about, with what is left of them.
func (e *Lease) leftOf(left Left) (limits []remaining) {
	for _, r := range e.rules {
		said := r.Kind == left.Kind && r.Provider == e.call.Provider && r.Period == time.Minute
		// The count of a rate is unknown; only 0 left says something: no burst is saved up.
		if said && (r.way == byRate && left.Units == 0 || r.way == byWindow && r.Window.Length == r.Period) {
			limits = append(limits, remaining{rule: r, units: max(0, left.Units)})
		}
	}
	return limits
}

// tooHigh returns the adaptive limit that a refusal of the call cuts; nil: none. exceeded is as in Settlement. A refusal
// for want of a tier's capacity says nothing about limits that all tiers share.
func (e *Lease) tooHigh(exceeded Kind) *rule {
	if e.call.Tier != "" && exceeded == "" {
		return nil
	}
	var narrowest *rule
	for _, r := range e.rules {
		if r.Kind == exceeded && exceeded != Concurrency {
			return nil
		}
		if r.Adaptive && (narrowest == nil || len(r.Provider) > len(narrowest.Provider) || r.Model != "") {
			narrowest = r
		}
	}
	return narrowest
}
