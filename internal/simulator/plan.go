package simulator

// plan is what becomes of a call that is taken. It is made on arrival, because
// limits may be charged what the answer will use.
type plan struct {
	fate   fate
	text   string // of the answer
	finish string // why it ends
	output int    // tokens, the reasoning's among them
	// reasoning is what is used beside the text.
	reasoning int
}

// fate is the kind of answer.
type fate int

const (
	good fate = iota
	hanging
	failing
	unsupported // response_format
	halved      // cut off
)

func (s *Simulator) plan(req *chatRequest, text string, c *call, b Behaviour) (p plan) {
	switch {
	case c.draw("hang") < b.HangRate:
		p.fate = hanging
	case c.draw("fail") < b.FailRate, c.taken == 1 && s.isOneIn(b.FailEvery, c.prompt):
		return plan{fate: failing}
	case b.WithoutSchemas && req.schema() != "":
		return plan{fate: unsupported}
	case c.draw("cut") < b.CutRate:
		p.fate = halved
	}
	if c.draw("malformed") < b.MalformedRate {
		text = garble(text, hashOf("garble", c.luck))
	}
	p.text, p.finish, p.output = text, "stop", tokens(len(text))
	if b.AnswerTokens != (Range{}) {
		drawn := b.AnswerTokens.at(c.draw("answer tokens"))
		p.reasoning = max(0, drawn-p.output)
		p.output = drawn
	}
	if c.bound > 0 && p.output > c.bound {
		said := max(0, c.bound-p.reasoning) // what comes after the reasoning
		p.text, p.finish = text[:min(len(text), 4*said)], "length"
		p.output, p.reasoning = c.bound, min(p.reasoning, c.bound)
	}
	return p
}

// isOneIn picks one prompt in n; none where n is 0.
func (s *Simulator) isOneIn(n int, prompt uint64) bool {
	return n > 0 && mix(prompt+s.config.Seed)%uint64(n) == 0
}
