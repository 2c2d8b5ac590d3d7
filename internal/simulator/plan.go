package simulator

import (
	"cmp"
	"net/http"
)

// plan is what becomes of a call that is taken. It is made on arrival, because
// limits may be charged what the answer will use.
type plan struct {
	fate      fate
	problem   problem // that it fails with
	text      string  // of the answer
	truncated bool    // by the request's bound
	output    int     // tokens, the reasoning's among them
	reasoning int     // tokens used beside the text
}

// fate is the kind of answer.
type fate int

const (
	good fate = iota
	hanging
	failing
	halved // cut off
)

func (s *Simulator) plan(c *call, text string) (p plan) {
	b := c.behaviour
	switch {
	case c.draw("hang") < b.HangRate:
		p.fate = hanging
	case c.draw("fail") < b.FailRate, c.taken == 1 && s.isOneIn(b.FailEvery, c.prompt):
		return plan{fate: failing, problem: c.plannedFailure()}
	case b.WithoutSchemas && c.req.schema != "":
		return plan{fate: failing, problem: problem{failure: withoutSchema}}
	case c.draw("cut") < b.CutRate:
		p.fate = halved
	}
	if c.draw("malformed") < b.MalformedRate {
		text = garble(text, hashOf("garble", c.luck))
	}
	p.text, p.output = text, tokens(len(text))
	if b.AnswerTokens != (Range{}) {
		drawn := b.AnswerTokens.at(c.draw("answer tokens"))
		p.reasoning = max(0, drawn-p.output)
		p.output = drawn
	}
	if bound := c.req.bound; bound > 0 && p.output > bound {
		said := max(0, bound-p.reasoning) // what comes after the reasoning
		p.text, p.truncated = text[:min(len(text), 4*said)], true
		p.output, p.reasoning = bound, min(p.reasoning, bound)
	}
	return p
}

// plannedFailure is the failure asked of the simulator.
func (c *call) plannedFailure() problem {
	status := cmp.Or(c.behaviour.FailStatus, http.StatusInternalServerError)
	return problem{
		failure: failureOf(status),
		status:  status,
		message: "This failure was asked of the simulator",
		wait:    c.behaviour.RetryAfter.at(c.draw("retry after")),
	}
}

// isOneIn picks one prompt in n; none where n is 0.
func (s *Simulator) isOneIn(n int, prompt uint64) bool {
	return n > 0 && mix(prompt+s.config.Seed)%uint64(n) == 0
}
