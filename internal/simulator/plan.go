package simulator

import (
	"cmp"
	"slices"
	"strings"
)

// plan is the outcome of a call. It is made on arrival, because limits may be charged what the
// answer will use.
type plan struct {
	fate      fate
	problem   problem // with which it fails
	text      string  // of the answer
	finish    finish
	output    int      // tokens, including reasoning
	reasoning int      // tokens used in addition to the text
	thoughts  string   // the visible part of the reasoning
	found     *finding // nil: no search
	cached    int      // tokens of the prompt that were read from a cache
	cachedNow int      // tokens of the prompt that were written to a cache
	written   int      // of these, the ones that OpenAI charges for
}

// fate is the kind of outcome.
type fate int

const (
	good fate = iota
	hanging
	failing
	halved // cut off
)

// finish says why an answer ends.
type finish int

const (
	stopped     finish = iota
	truncated          // at the request's bound
	overflowing        // at the end of the model's context window
	refused            // by the model, in words
	filtered           // by the provider, without words
	paused             // in the middle of a search, to be continued
)

const (
	declined = "I'm sorry, but I cannot help with that."
	filling  = " and so on" // pads answers to the configured length
)

func (s *Simulator) plan(c *call, text string) (p plan) {
	b := c.behaviour
	switch {
	case c.draw("hang") < b.HangRate:
		p.fate = hanging
	case c.draw("fail") < b.FailRate, c.taken == 1 && s.isOneIn(b.FailEvery, c.prompt):
		return plan{fate: failing, problem: c.trouble()}
	case c.draw("cut") < b.CutRate:
		p.fate = halved
	}

	if failure := c.impossible(); failure != "" && p.fate != hanging {
		return plan{fate: failing, problem: problem{failure: failure}}
	}
	text = spoilEntries(text, b.OmitEntries, b.CorruptEntries)
	if c.draw("malformed") < b.MalformedRate {
		text = garble(text, hashOf("garble", c.luck))
	}
	mute := c.req.json && c.together() == SearchIgnored
	if c.req.search && !mute && c.draw("ungrounded") >= b.UngroundedRate {
		p.found = search(c.req.topic())
	}
	switch {
	case p.found != nil && c.req.pausable && c.req.paused < b.Pauses:
		p.finish, text = paused, ""
	case c.draw("refuse") < b.RefuseRate:
		p.finish, text, p.found = refused, declined, nil
	case c.draw("filter") < b.FilterRate:
		p.finish, text, p.found = filtered, "", nil
	}

	p.text = text
	if share := int(b.CachedShare * float64(c.req.inputTokens())); c.taken > 1 {
		p.cached = share
	} else {
		p.cachedNow = share
	}
	if b.PromptCache != nil {
		c.cache(s.caches, &p)
	}

	p.reason(c)
	p.bound(c)
	if more := b.AnswerBytes - len(p.text); more > 0 {
		p.text += strings.Repeat(filling, more/len(filling)+1)[:more]
	}
	return p
}

// impossible returns why the model cannot answer the request; empty: it can.
func (c *call) impossible() Failure {
	b := c.behaviour
	switch {
	case len(c.req.messages) == 0: // some dialects allow that
		return Loading
	case b.WithoutSchemas && c.req.schema != "":
		return withoutSchema
	case b.WithoutSystem && slices.ContainsFunc(c.req.messages, func(m message) bool { return m.Role == "system" }):
		return withoutSystem
	case c.req.search && c.req.json && c.together() == SearchRefused:
		return searchAndJSON
	case c.window() > 0 && c.req.inputTokens() > c.window():
		return ContextLength
	}
	return ""
}

// together returns how search and JSON go together for this call.
func (c *call) together() SearchWithJSON {
	return cmp.Or(c.behaviour.SearchWithJSON, c.req.exclusive, SearchAllowed)
}

// excess returns how many input tokens a request with too many has, and how many it may have.
func (c *call) excess() (has, most int) {
	has = c.req.inputTokens()
	return has, cmp.Or(c.window(), has/2)
}

// window returns the model's context window for this request, in tokens; 0: unlimited.
func (c *call) window() int {
	if own := c.behaviour.ContextWindow; own > 0 && c.req.window > 0 {
		return min(own, c.req.window)
	}
	return max(c.req.window, c.behaviour.ContextWindow)
}

// reason makes the plan use tokens for the text and for the reasoning before it.
func (p *plan) reason(c *call) {
	said := tokens(len(p.text))
	p.output = said
	if c.req.reason {
		p.output += tokens(len(thoughts))
	}
	if drawn := c.behaviour.AnswerTokens; drawn != (Range{}) {
		p.output = drawn.at(c.draw("answer tokens"))
	}
	if c.draw("unreasoned") < c.behaviour.UnreasonedRate {
		p.output = min(p.output, said)
	}
	if p.reasoning = max(0, p.output-said); p.reasoning > 0 && c.req.reason {
		p.thoughts = thoughts
	}
}

// bound cuts the answer off at the request's bound and the context window.
func (p *plan) bound(c *call) {
	bound := c.req.bound
	if p.finish == stopped && c.draw("truncate") < c.behaviour.TruncateRate {
		bound = p.reasoning + tokens(len(p.text))/2
	}
	ends := truncated
	if window := c.window(); window > 0 {
		if left := window - c.req.inputTokens() - p.found.tokens(); bound == 0 || left < bound {
			bound, ends = max(left, 1), overflowing
		}
	}
	if bound == 0 || p.output <= bound {
		return
	}
	said := max(0, bound-p.reasoning) // the part after the reasoning
	p.text, p.finish = strings.ToValidUTF8(p.text[:min(len(p.text), 4*said)], ""), ends
	p.output, p.reasoning = bound, min(p.reasoning, bound)
}

// isOneIn selects one prompt in n; none if n is 0.
func (s *Simulator) isOneIn(n int, prompt uint64) bool {
	return n > 0 && mix(prompt+s.config.Seed)%uint64(n) == 0
}
