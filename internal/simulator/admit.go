package simulator

import (
	"cmp"
	"fmt"
	"strconv"
	"time"
)

// call is a request that has to be answered.
type call struct {
	req       *request
	behaviour Behaviour
	prompt    uint64 // hash of the model and its messages
	taken     uint32 // how often the prompt was taken, including this time
	luck      string // seed of everything random about this call
	plan      plan
	spends    spending  // actual usage
	admitted  time.Time // by all limits
	told      []limitState
	fresh     []entry // what its answer leaves in a cache
	batched   bool    // it is a task of a batch
}

// draw returns the call's random number in [0, 1) for one purpose.
func (c *call) draw(purpose string) float64 { return unit(hashOf(purpose, c.luck)) }

// named returns the model that the answer names.
func (c *call) named() string { return cmp.Or(c.behaviour.Serves, c.req.model) }

// id returns an id of something of this call, with a prefix.
func (c *call) id(prefix string) string {
	return fmt.Sprintf("%s%016x", prefix, hashOf(prefix, c.luck))
}

// refusal is the limit that refused a request. For a model that does not exist, there is no limit.
type refusal struct {
	unknown  string        // the model, if it does not exist
	tier     string        // the service tier, if it is that which has no capacity
	limit    string        // its name in the counts
	counted  quantity      // what the limit counts
	window   time.Duration // of the limit, if it has one
	message  string        // of the error
	tooLarge bool          // no wait can help
	wait     time.Duration // until there is room; 0: unknown
}

// longer returns the refusal with the longer wait. One that no wait can help counts as the longest.
func longer(a, b *refusal) *refusal {
	if a == nil || b != nil && (b.tooLarge || b.wait > a.wait && !a.tooLarge) {
		return b
	}
	return a
}

// problem returns the problem to report to the client. hint, if not 0, replaces the known wait.
func (r *refusal) problem(hint time.Duration) problem {
	if r.unknown != "" {
		return problem{
			failure: ModelUnavailable,
			message: "The model " + strconv.Quote(r.unknown) + " does not exist; want careful, average, careless or one in the " +
				"simulator's configuration",
		}
	}
	if r.tier != "" {
		return problem{failure: withoutCapacity}
	}
	p := problem{failure: RateLimited, message: r.message, counted: r.counted, window: r.window}
	if r.window >= day {
		p.failure = QuotaDaily
	}
	if !r.tooLarge {
		p.wait = cmp.Or(hint, r.wait)
	}
	return p
}

// admit counts the arrival and takes the request under all limits, or under none; it then returns
// the limit that refused. text is what the model answers.
func (s *Simulator) admit(req *request, text string, b Behaviour) (*call, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now() // inside the lock, so that time never goes back for a window
	c := &call{req: req, behaviour: b}
	model := s.models[req.model]
	if model == nil {
		return c, &refusal{unknown: req.model}
	}
	times := s.meet(c, model, text)
	scopes := s.scopes(req)
	var refused *refusal
	for _, scope := range scopes {
		scope.arrive(now, c)
		refused = longer(refused, scope.refuses(now, c))
	}

	if refused == nil {
		refused = s.throttle(now, b, model, c.prompt)
	}
	for _, scope := range scopes {
		if refused != nil {
			scope.reject(refused)
		} else {
			scope.take(now, c)
		}
	}

	arrival := Arrival{
		At: now, Model: req.model, InputTokens: c.spends.input, OutputTokens: c.spends.output, Search: req.search,
		JSON: req.json,
	}
	if s.config.KeepTexts {
		for _, m := range req.messages {
			arrival.Texts = append(arrival.Texts, m.Content)
		}
	}

	if refused == nil {
		times.taken++
		c.admitted = now
	} else {
		arrival.RejectedBy = refused.limit
	}

	s.arrivals.add(arrival)
	if !b.WithoutLimitHeaders {
		c.told = tightest(scopes, now)
	}
	return c, refused
}

// meet counts the arrival of a call's prompt at its model, and plans its answer.
func (s *Simulator) meet(c *call, model *scope, text string) *promptCount {
	c.prompt = c.req.hash()
	times := model.prompts[c.prompt]
	if times == nil {
		times = &promptCount{}
		model.prompts[c.prompt] = times
	}
	times.arrived++
	c.luck = fmt.Sprint(s.config.Seed, c.prompt, times.taken)
	c.taken = times.taken + 1
	c.plan = s.plan(c, text)
	c.spends = spending{input: c.req.inputTokens() + c.plan.found.tokens(), output: c.plan.output}
	return times
}

// leave ends a call that was taken.
func (s *Simulator) leave(c *call, ended outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(time.Now(), c, ended)
}

// end does what leave does, for callers that have the lock.
func (s *Simulator) end(now time.Time, c *call, ended outcome) {
	if ended == answered {
		s.caches.keep(c, now)
	}
	for _, scope := range s.scopes(c.req) {
		scope.leave(now, c, ended)
	}
}

// scopes returns those that count a request for a known model.
func (s *Simulator) scopes(req *request) []*scope {
	scopes := []*scope{s.all, s.models[req.model]}
	if tier := s.tiers[req.tier]; tier != nil {
		scopes = append(scopes, tier)
	}
	return scopes
}
