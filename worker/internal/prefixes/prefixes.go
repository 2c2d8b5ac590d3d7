// Package prefixes decides which beginnings of prompts a provider should keep in its prompt cache.
//
// Reading from a cache costs a tenth of the input, and writing to it, with some providers, a quarter more than the input.
// So a beginning is kept only where the calls before show that it pays: enough of them began like an earlier one that
// this process had seen answered within the life of a cache. The first calls of an evaluation therefore keep nothing,
// and an evaluation of few calls never costs more than without caches. What was kept must be found again, or nothing
// more is kept.
//
// Each process judges by its own calls. In a fleet, others may have written what it takes for new, so it keeps less than
// it could.
package prefixes

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/providers"
)

const (
	// Life is how long a cache keeps what was not read again, at least: Anthropic's five minutes.
	Life = 5 * time.Minute
	// enough is how many calls must have been seen before anything is kept.
	enough = 32
	// margin is how much the share of calls that read from a cache must exceed the one at which costs are equal.
	margin = 0.1
	// proof is how many reads must have been expected before they are compared with those that happened.
	proof = 16
	// reserve is the factor by which a beginning must exceed the least length, because its tokens are estimated.
	reserve = 1.05
)

// Of names the calls that are compared with each other: those of one judge of an evaluation to one model.
type Of struct {
	Evaluation eval.ID
	Judge      int    // position in eval.Evaluation.Asked
	Model      string // provider:model
}

// Terms say on what it depends whether keeping pays.
type Terms struct {
	Way     providers.PromptCache
	Minimum int              // tokens of the shortest beginning that is cached
	PerByte float64          // tokens in a byte of a prompt, about
	Price   *providers.Price // nil: not known
	Runs    int              // that make such calls, at most
}

// Seen remembers the beginnings of recent calls. It is safe for concurrent use.
type Seen struct {
	mu sync.Mutex // guards all below
	of map[Of]*calls
}

// New returns a Seen that has seen nothing.
func New() *Seen { return &Seen{of: map[Of]*calls{}} }

// Keep forgets the calls of all evaluations that are not active.
func (s *Seen) Keep(active map[eval.ID]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of := range s.of {
		if !active[of.Evaluation] {
			delete(s.of, of)
		}
	}
}

type digest [16]byte

// calls are those that are compared with each other.
type calls struct {
	begun           int
	levels          []*level // by position in Request.Prefixes
	expected, found int      // calls that should have read what was kept, and those that read something
}

// lost reports whether what was kept was not found again.
func (c *calls) lost() bool { return c.expected >= proof && 2*c.found < c.expected }

// level are the beginnings of one length: the instructions, those with the question, or those with the first text.
type level struct {
	used   map[digest]use // during the last Life
	pruned time.Time
	recent [enough]bool // whether the last calls began like an earlier one
	count  int
}

// use is the last use of a beginning.
type use struct {
	at   time.Time // when the call began
	kept bool      // in the cache
}

// share returns the share of recent calls that began like an earlier one; 0 as long as too few were seen.
func (l *level) share() float64 {
	if l.count < enough {
		return 0
	}
	again := 0
	for _, known := range l.recent {
		if known {
			again++
		}
	}
	return float64(again) / enough
}

func (l *level) note(known bool) {
	l.recent[l.count%enough] = known
	l.count++
}

func (l *level) prune(now time.Time) {
	if now.Sub(l.pruned) < Life/4 {
		return
	}
	for d, u := range l.used {
		if now.Sub(u.at) >= Life {
			delete(l.used, d)
		}
	}
	l.pruned = now
}

// Call is a call in flight. A nil Call is one about which nothing has to be remembered.
type Call struct {
	seen    *Seen
	of      *calls
	at      time.Time
	digests []digest // of the beginnings that are long enough
	kept    []bool
	reads   bool // what was kept is in its beginning
}

// Begin sets what a request asks its provider to keep, and notes the beginnings of its messages.
func (s *Seen) Begin(of Of, request *providers.Request, terms Terms, now time.Time) *Call {
	request.CacheKey = ""
	if _, saves := terms.even(); len(request.Prefixes) == 0 || terms.Way == providers.PromptCacheUntold ||
		terms.Way == providers.PromptCacheMarks && !saves {
		return nil // nothing would be kept
	}
	digests, lengths := measure(request)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of[of]
	if c == nil {
		c = &calls{}
		s.of[of] = c
	}
	c.begun++
	for len(c.levels) < len(digests) {
		c.levels = append(c.levels, &level{used: map[digest]use{}, pruned: now})
	}

	call := &Call{seen: s, of: c, at: now, digests: digests, kept: make([]bool, len(digests))}
	best, key := 0.0, ""
	for i, l := range c.levels[:len(digests)] {
		l.prune(now)
		long := float64(lengths[i])*terms.PerByte >= reserve*float64(terms.Minimum)
		before, known := l.used[digests[i]]
		known = known && long && now.Sub(before.at) < Life
		l.note(known)
		keep := long && !c.lost() && terms.pays(l, c.begun)
		if known && before.kept && !c.lost() {
			keep, call.reads = true, true // reading it lets it live on
		}
		call.kept[i] = keep && terms.Way != providers.PromptCacheKey
		request.Prefixes[i].Keep = call.kept[i]
		if gain := l.share() * float64(lengths[i]); long && gain > best {
			best, key = gain, hex.EncodeToString(digests[i][:])
		}
	}
	request.CacheKey = key
	return call
}

// pays reports whether writing the beginnings of a level costs less than reading them again saves. Of the runs that are
// left, there must be two for each beginning that would have to be written.
func (t Terms) pays(l *level, begun int) bool {
	even, saves := t.even()
	return saves && l.share() >= even+margin && t.Runs-begun >= 2*len(l.used)
}

// even returns the share of calls that must read what calls write for the cost to be the same. saves is false if reading
// saves nothing, or the prices are not known.
func (t Terms) even() (share float64, saves bool) {
	if t.Price == nil || t.Price.CachedInput == nil || t.Price.CacheWrite == nil {
		return 0, false
	}
	input, read, write := t.Price.Input, *t.Price.CachedInput, *t.Price.CacheWrite
	if read >= input {
		return 0, false
	}
	return max(0, (write-input)/(write-read)), true
}

// Answered notes that the call was answered, so that the next one like it can read what it wrote.
func (c *Call) Answered(used providers.Usage) {
	if c == nil {
		return
	}
	c.seen.mu.Lock()
	defer c.seen.mu.Unlock()
	for i, d := range c.digests {
		of := c.of.levels[i].used
		if last := of[d]; c.at.After(last.at) {
			of[d] = use{c.at, c.kept[i]}
		} else {
			of[d] = use{last.at, last.kept || c.kept[i]}
		}
	}
	if c.reads && used.Reported {
		c.of.expected++
		if used.Cached > 0 {
			c.of.found++
		}
	}
}

// measure returns a digest of each of the request's prefixes, with everything that providers put before it, and its
// length in bytes.
func measure(r *providers.Request) (digests []digest, lengths []int) {
	hash := sha256.New()
	add := func(text string) { _, _ = io.WriteString(hash, text) } // never fails
	if r.Schema != nil {
		add(string(r.Schema.Schema) + "\x00")
	}
	size, message, offset := 0, 0, 0
	for _, p := range r.Prefixes {
		for ; message < p.Message; message++ {
			rest := r.Messages[message].Content[offset:]
			add(rest + "\x00")
			size, offset = size+len(rest), 0
		}
		more := r.Messages[message].Content[offset:p.Offset]
		add(more)
		size, offset = size+len(more), p.Offset
		digests, lengths = append(digests, digest(hash.Sum(nil)[:16])), append(lengths, size)
	}
	return digests, lengths
}
