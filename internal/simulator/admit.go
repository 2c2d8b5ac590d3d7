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
	model  string
	prompt uint64 // hash of the model and its messages
	taken  uint32 // how often the prompt was taken, this time included
	luck   string // decides everything about this call that looks like chance
	rate   rateState
}

// draw is a number in [0, 1) for one purpose.
func (c *call) draw(purpose string) float64 { return unit(hashOf(purpose, c.luck)) }

func (c *call) requestID() string { return fmt.Sprintf("req_%016x", hashOf("request", c.luck)) }

// rateState is what the rate-limit headers say: the tightest rate's.
type rateState struct {
	limit, left int
	reset       time.Duration
}

func (r rateState) write(h http.Header) {
	if r.limit > 0 {
		h.Set("X-Ratelimit-Limit-Requests", strconv.Itoa(r.limit))
		h.Set("X-Ratelimit-Remaining-Requests", strconv.Itoa(r.left))
		h.Set("X-Ratelimit-Reset-Requests", r.reset.String())
	}
}

// refusal is a limit that a request met. A request for a model that does not
// exist meets none.
type refusal struct {
	unknown string
	limit   string
	wait    time.Duration
}

func (r *refusal) reply(hint time.Duration) reply {
	if r.unknown != "" {
		return problem(http.StatusNotFound, "invalid_request_error", "model_not_found",
			"The model "+strconv.Quote(r.unknown)+" does not exist; there are careful, average, careless and those of the simulator's configuration")
	}
	refused := problem(http.StatusTooManyRequests, "rate_limit_error", "rate_limit_exceeded", "Rate limit reached: "+r.limit)
	refused.retryAfter = cmp.Or(hint, r.wait)
	return refused
}

// admit counts the arrival and takes the request under all limits, or under none
// and says which refused.
func (s *Simulator) admit(req *chatRequest) (*call, *refusal) {
	prompt := req.hash()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now() // inside the lock, so that time never goes back for a window
	c := &call{model: req.Model, prompt: prompt}
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
	scopes := [2]*scope{s.all, model}
	for _, scope := range scopes {
		scope.arrive(now)
	}
	for _, scope := range scopes {
		if limit, wait := scope.refuses(now); limit != "" {
			s.all.counts.rejected++
			model.counts.rejected++
			c.rate = tightest(scopes, now)
			return c, &refusal{limit: limit, wait: wait}
		}
	}
	times.taken++
	c.taken = times.taken
	for _, scope := range scopes {
		scope.take(now)
	}
	c.rate = tightest(scopes, now)
	return c, nil
}

func tightest(scopes [2]*scope, now time.Time) rateState {
	var tight rateState
	for _, scope := range scopes {
		if scope.window == nil {
			continue
		}
		if left := scope.window.left(now); tight.limit == 0 || left < tight.left {
			tight = rateState{limit: scope.limits.Requests.N, left: left, reset: scope.window.wait(now)}
		}
	}
	return tight
}

// leave ends a call that was taken.
func (s *Simulator) leave(c *call, ended outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, scope := range [2]*scope{s.all, s.models[c.model]} {
		scope.use(now, -1)
		switch ended {
		case answered:
			scope.counts.answered++
		case failed:
			scope.counts.failed++
		case cut:
			scope.counts.cut++
		case abandoned:
			scope.counts.abandoned++
		}
	}
}
