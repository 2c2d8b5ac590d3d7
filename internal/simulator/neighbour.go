package simulator

import (
	"fmt"
	"time"
)

// The effects of sharing an account with other clients: limits partly used by others, and
// refusals without fault.

// otherClient sends its own requests at even intervals.
type otherClient struct {
	every  time.Duration
	next   time.Time
	spends spending
}

func newOtherClient(l Limits, now time.Time) *otherClient {
	if l.OtherRequests == (Rate{}) {
		return nil
	}
	every := max(l.OtherRequests.Window/time.Duration(l.OtherRequests.N), 1)
	return &otherClient{
		every:  every,
		next:   now.Add(every),
		spends: spending{input: l.OtherTokens - l.OtherTokens/2, output: l.OtherTokens / 2},
	}
}

// until lets the requests arrive that are due by now. It must be called before anything else that a
// scope does at that time, so that time never goes back for a window.
func (o *otherClient) until(now time.Time, s *scope) {
	if o == nil {
		return
	}
	for ; !o.next.After(now); o.next = o.next.Add(o.every) {
		if o.admitted(s) {
			s.counts.other++
			for _, l := range s.limits {
				l.window.take(o.next, o.spends.of(l.counted))
			}
		}
	}
}

func (o *otherClient) admitted(s *scope) bool {
	for _, l := range s.limits {
		if l.refuses(o.next, o.spends) != nil {
			return false
		}
	}
	return true
}

// throttle refuses a request that no limit refuses; nil: it does not.
func (s *Simulator) throttle(now time.Time, b Behaviour, model *scope, prompt uint64) *refusal {
	since := now.Sub(s.began)
	stormy := b.ThrottleBetween.Min <= since && since < b.ThrottleBetween.Max
	// The draw depends on how often the prompt has arrived, because refused prompts come again.
	drawn := unit(hashOf("throttle", fmt.Sprint(s.config.Seed, prompt, model.prompts[prompt].arrived)))
	every := b.ThrottleEvery > 0 && model.counts.arrived%int64(b.ThrottleEvery) == 0
	if !stormy && !every && drawn >= b.ThrottleRate {
		return nil
	}
	refused := &refusal{
		limit: "throttled", counted: requestCount, window: time.Minute,
		message: "Rate limit reached on requests per min, by all clients of the account", wait: time.Second,
	}
	if stormy {
		refused.wait = b.ThrottleBetween.Max - since
	}
	return refused
}
