package simulator

import (
	"fmt"
	"strings"
	"time"
)

// quantity is what a rate counts.
type quantity string

const (
	requestCount quantity = "requests"
	allTokens    quantity = "tokens"
	inputTokens  quantity = "input_tokens"
	outputTokens quantity = "output_tokens"
	callsAtOnce  quantity = "concurrency" // not counted by rates
	inBatches    quantity = "enqueued_tokens"
)

// quantities lists those that rates count.
var quantities = []quantity{requestCount, allTokens, inputTokens, outputTokens}

func (l Limits) rates(counted quantity) Rates {
	switch counted {
	case allTokens:
		return l.Tokens
	case inputTokens:
		return l.InputTokens
	case outputTokens:
		return l.OutputTokens
	}
	return l.Requests
}

// spending is the usage or charge of one request, in tokens.
type spending struct{ input, output int }

func (s spending) of(counted quantity) int {
	switch counted {
	case allTokens:
		return s.input + s.output
	case inputTokens:
		return s.input
	case outputTokens:
		return s.output
	}
	return 1
}

// limit enforces one rate of a scope.
type limit struct {
	counted quantity
	rate    Rate
	window  window
	busiest busiest
	charged int64
	since   time.Time // time of the last reset; charged counts what was admitted since
}

func newLimits(l Limits) (limits []*limit) {
	for _, counted := range quantities {
		for _, rate := range l.rates(counted) {
			limits = append(limits, &limit{
				counted: counted,
				rate:    rate,
				window:  newWindow(rate),
				busiest: busiest{fixed: rate.Shape == Fixed, length: rate.Window},
			})
		}
	}
	return limits
}

// name returns the limit in the form of its declaration: "tokens 200000/1m0s bucket".
func (l *limit) name() string { return string(l.counted) + " " + l.rate.String() }

// refuses returns why the limit has no room for a request; nil: it has.
func (l *limit) refuses(now time.Time, s spending) *refusal {
	cost := s.of(l.counted)
	what := fmt.Sprintf("%s per %s: limit %d, requested %d", strings.ReplaceAll(string(l.counted), "_", " "), l.rate.per(), l.rate.N, cost)
	refused := &refusal{limit: l.name(), counted: l.counted, window: l.rate.Window}
	if largest := l.rate.largest(); cost > largest {
		refused.tooLarge = true
		refused.message = fmt.Sprintf("Request too large for %s; no request of more than %d is ever admitted", what, largest)
		return refused
	}
	if refused.wait = l.window.wait(now, cost); refused.wait == 0 {
		return nil
	}
	refused.message = "Rate limit reached on " + what
	return refused
}

func (l *limit) take(now time.Time, s spending) {
	l.window.take(now, s.of(l.counted))
	l.charged += int64(s.of(l.counted))
}

// settle replaces the charge made at admitted by the usage.
func (l *limit) settle(now, admitted time.Time, charged, spent spending) {
	if by := spent.of(l.counted) - charged.of(l.counted); by != 0 {
		l.window.settle(now, admitted, by)
		l.busiest.change(admitted, by)
		if !admitted.Before(l.since) {
			l.charged += int64(by)
		}
	}
}
