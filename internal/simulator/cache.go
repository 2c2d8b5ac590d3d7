package simulator

import (
	"strconv"
	"strings"
	"time"
)

// PromptCache is a vendor's cache of the beginnings of prompts. A beginning is found once the answer to a prompt that had
// it is complete, and for Life after its last use.
type PromptCache struct {
	Manner  Manner `json:"manner"`
	Life    Span   `json:"life"`    // such as 5m; the lower end counts
	Minimum int    `json:"minimum"` // tokens of the shortest beginning that is kept
}

// Manner is what a cache keeps.
type Manner string

// The manners of vendors.
const (
	// Marked: what ends with cache_control, and charged for (Anthropic).
	Marked Manner = "marks"
	// Stepped: all of each prompt, in steps of 128 tokens, in the cache that the key and the first 256 tokens choose
	// (OpenAI before gpt-5.6; Google, without a key).
	Stepped Manner = "steps"
	// Broken: what ends with a breakpoint, and the whole prompt unless the request says otherwise. Both are charged for
	// (OpenAI since gpt-5.6).
	Broken Manner = "breakpoints"
)

var manners = []Manner{Marked, Stepped, Broken}

const (
	bytesPerToken = 4
	stepBytes     = 128 * bytesPerToken
	routedBytes   = 256 * bytesPerToken
)

// place is an offset in the content of a message.
type place struct{ message, offset int }

// openaiCaching has the fields of OpenAI's dialects about caches.
type openaiCaching struct {
	PromptCacheKey     string `json:"prompt_cache_key"`
	PromptCacheOptions struct {
		Mode string `json:"mode"`
		TTL  string `json:"ttl"`
	} `json:"prompt_cache_options"`
}

// mostRouted is how many calls of a minute with one key and one beginning go to the same cache. Others go to a next one,
// which does not know what the first has.
const mostRouted = 15

// caches holds when each beginning was last used.
type caches struct {
	used   map[uint64]time.Time
	routes map[uint64]*route
}

// route counts the calls of a minute with one key and one beginning.
type route struct {
	since time.Time
	calls int
}

// machine returns which of a vendor's caches a call goes to.
func (k caches) machine(c *call, prompt string, now time.Time) string {
	if !c.req.routed {
		return ""
	}
	by := c.req.cacheKey + "\x00" + prompt[:min(len(prompt), routedBytes)]
	r := k.routes[hashOf(c.req.model, by)]
	if r == nil || now.Sub(r.since) >= time.Minute {
		r = &route{since: now}
		k.routes[hashOf(c.req.model, by)] = r
	}
	r.calls++
	return by + "\x00" + strconv.Itoa((r.calls-1)/mostRouted)
}

// entry is a beginning: its identity and its length in tokens.
type entry struct {
	id     uint64
	tokens int
}

// beginnings returns the beginnings of a prompt that its cache may have, the shortest first. The schema comes before the
// messages.
func (c *call) beginnings(known caches, now time.Time) (all []entry) {
	cache := c.behaviour.PromptCache
	head := c.req.model + "\x00" + c.req.schema + "\x00"
	var text strings.Builder
	ends := map[int]bool{}
	for i, m := range c.req.messages {
		for _, mark := range c.req.marks {
			if mark.message == i && cache.Manner != Stepped {
				ends[text.Len()+mark.offset] = true
			}
		}
		text.WriteString(m.Content)
	}

	prompt := text.String()
	switch {
	case cache.Manner == Stepped:
		head += known.machine(c, prompt, now) + "\x00"
		for end := stepBytes; end <= len(prompt); end += stepBytes {
			ends[end] = true
		}
	case cache.Manner == Broken && !c.req.unasked:
		ends[len(prompt)] = true
	}
	for end := range len(prompt) + 1 {
		if ends[end] && tokens(end) >= cache.Minimum {
			all = append(all, entry{hashOf(head, prompt[:end]), tokens(end)})
		}
	}
	return all
}

// cache plans what the call reads from its cache and writes to it.
func (c *call) cache(known caches, p *plan) {
	now, of := time.Now(), c.behaviour.PromptCache
	p.cached, p.cachedNow = 0, 0
	for _, e := range c.beginnings(known, now) {
		c.fresh = append(c.fresh, e)
		if last, ok := known.used[e.id]; ok && now.Sub(last) < of.Life.Min {
			p.cached, p.cachedNow = e.tokens, 0
			known.used[e.id] = now
			continue
		}
		p.cachedNow = e.tokens - p.cached
	}
	switch of.Manner {
	case Stepped:
		p.cachedNow = 0 // free
	case Broken:
		p.written = p.cachedNow
	}
}

// cacheDetails returns the part of OpenAI's usage that is about caches.
func (c *call) cacheDetails() map[string]int {
	details := map[string]int{"cached_tokens": c.plan.cached}
	if c.plan.written > 0 {
		details["cache_write_tokens"] = c.plan.written
	}
	return details
}

// keep lets later calls find what an answered call has written.
func (k caches) keep(c *call, now time.Time) {
	for _, e := range c.fresh {
		k.used[e.id] = now
	}
}
