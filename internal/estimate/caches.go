package estimate

import (
	"github.com/evalfleet/evalfleet/eval/prompt"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// What a worker needs to see before it has a provider keep anything, as in worker/internal/prefixes.
const (
	callsBeforeKeeping = 32
	lengthReserve      = 1.05 // by which a beginning must exceed the least length
)

// level is a sum over beginnings of prompts that have the same length in the plan: all instructions, or all up to the
// first document.
type level struct{ bytes, count int64 }

// begins are the beginnings of a length that prompts of a judge have.
type begins struct {
	tokens   int64 // of each
	distinct int   // at most
}

// begin adds the beginnings of a prompt that others may have, too.
func (p *prompts) begin(built prompt.Prompt) {
	for i := range built.Repeats {
		end := built.Repeats[len(built.Repeats)-1-i]
		if i == len(p.levels) {
			p.levels = append(p.levels, level{})
		}
		p.levels[i].bytes += length(built.Messages[:end.Message]) + int64(end.Offset)
		p.levels[i].count++
	}
}

// beginnings returns the beginnings of the phase's prompts, the longest first: with the first document, with the
// question, and instructions alone.
func (s *sized) beginnings() []begins {
	distinct := []int{len(s.q.Evaluation.Shown(s.kind)), len(s.q.Evaluation.Items), 1}
	var all []begins
	for i, l := range s.prompts.levels[:min(len(s.prompts.levels), len(distinct))] {
		all = append(all, begins{int64(float64(l.bytes) / float64(l.count) / BytesPerToken), distinct[i]})
	}
	return all
}

// cachedAtBest returns the cost in USD if prompt caches have every beginning that repeats, and the calls that read from
// them. The cost is nil if it is not lower then, or unknown.
func cachedAtBest(q Question, asked []demand) (usd *float64, calls int) {
	var nano, saved int64
	for _, d := range asked {
		price, known := q.priceOf(d)
		if !known {
			return nil, 0
		}
		used := providers.Usage{Input: d.input, Output: d.output}
		without := price.Cost(used, 0)
		nano += without
		read, written, reads := q.cached(d, price)
		used.Cached, used.Written = read, written
		if saves := without - price.Cost(used, 0); saves > 0 {
			nano, saved, calls = nano-saves, saved+saves, calls+reads
		}
	}
	if saved == 0 || saved*100 < nano { // not worth a line
		return nil, 0
	}
	cost := float64(nano) / ratelimit.Dollar
	return &cost, calls
}

// cached returns how many tokens of a demand are read from prompt caches and written to them, at best, and by how many
// calls they are read.
func (q *Question) cached(d demand, price providers.Price) (read, written int64, calls int) {
	if q.Capabilities == nil || d.bound || d.tier == providers.TierBatch || price.CachedInput == nil {
		return 0, 0, 0
	}
	can, left, charged := q.Capabilities(d.judge), d.calls, false
	switch can.PromptCache {
	case providers.PromptCacheUntold:
		return 0, 0, 0
	case providers.PromptCacheMarks, providers.PromptCacheBreakpoints:
		if price.CacheWrite == nil {
			return 0, 0, 0 // nothing is kept
		}
		left, charged = left-callsBeforeKeeping, true
	}

	for _, b := range d.begins {
		again := left - b.distinct
		if float64(b.tokens) < lengthReserve*float64(can.CacheMinimum) || left <= 0 {
			break
		}
		if again <= 0 {
			continue
		}
		if charged && written == 0 {
			written = int64(b.distinct) * b.tokens
		} else if charged {
			written -= int64(again) * b.tokens // their beginnings were there already
		}
		read += int64(again) * b.tokens
		calls += again
		left = b.distinct
	}
	return read, max(written, 0), calls
}
