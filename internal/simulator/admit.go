package simulator

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// call is a request that arrived at a known model.
type call struct {
	model    string
	prompt   uint64 // hash of the model and its messages
	taken    uint32 // how often the prompt was taken, this time included
	luck     string // decides everything about this call that looks like chance
	plan     plan
	spends   spending  // in truth
	bound    int       // on its output tokens; 0: none
	admitted time.Time // by all limits
	told     []limitState
}

// draw is a number in [0, 1) for one purpose.
func (c *call) draw(purpose string) float64 { return unit(hashOf(purpose, c.luck)) }

func (c *call) requestID() string { return fmt.Sprintf("req_%016x", hashOf("request", c.luck)) }

// refusal is a limit that a request met. A request for a model that does not
// exist meets none.
type refusal struct {
	unknown  string        // the model
	limit    string        // its name in the counts
	kind     string        // the type of the error
	message  string        // that of the error
	tooLarge bool          // no wait can help
	wait     time.Duration // until there is room; 0: nobody knows
}

// longer is the one with the longer wait; one that no wait can help comes first.
func longer(a, b *refusal) *refusal {
	if a == nil || b != nil && (b.tooLarge || b.wait > a.wait && !a.tooLarge) {
		return b
	}
	return a
}

func (r *refusal) reply(hint time.Duration) reply {
	if r.unknown != "" {
		return problem(http.StatusNotFound, "invalid_request_error", "model_not_found",
			"The model "+strconv.Quote(r.unknown)+" does not exist; there are careful, average, careless and those of the simulator's configuration")
	}
	refused := problem(http.StatusTooManyRequests, r.kind, "rate_limit_exceeded", r.message)
	if !r.tooLarge {
		refused.retryAfter = cmp.Or(hint, r.wait)
	}
	return refused
}

// admit counts the arrival and takes the request under all limits, or under none
// and says which refused. text is what the model answers.
func (s *Simulator) admit(req *chatRequest, text string, b Behaviour) (*call, *refusal) {
	prompt := req.hash()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now() // inside the lock, so that time never goes back for a window
	c := &call{model: req.Model, prompt: prompt, bound: req.bound()}
	model := s.models[req.Model]
	if model == nil {
		return c, &refusal{unknown: req.Model}
	}
	times := model.prompts[prompt]
	if times == nil {
		times = &promptCount{}
		model.prompts[prompt] = times
	}
	times.arrived++
	c.luck = fmt.Sprint(s.config.Seed, prompt, times.taken)
	c.taken = times.taken + 1
	c.plan = s.plan(req, text, c, b)
	c.spends = spending{input: req.inputTokens(), output: c.plan.output}
	scopes := [2]*scope{s.all, model}
	var refused *refusal
	for _, scope := range scopes {
		scope.arrive(now, c)
		refused = longer(refused, scope.refuses(now, c))
	}
	if refused == nil {
		refused = s.throttle(now, b, model, prompt)
	}
	for _, scope := range scopes {
		if refused != nil {
			scope.reject(refused)
		} else {
			scope.take(now, c)
		}
	}
	arrival := Arrival{At: now, Model: req.Model, InputTokens: c.spends.input, OutputTokens: c.spends.output}
	if refused == nil {
		times.taken++
		c.admitted = now
	} else {
		arrival.RejectedBy = refused.limit
	}
	s.arrivals.add(arrival)
	c.told = tightest(scopes, now)
	return c, refused
}

// leave ends a call that was taken.
func (s *Simulator) leave(c *call, ended outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, scope := range [2]*scope{s.all, s.models[c.model]} {
		scope.leave(now, c, ended)
	}
}
