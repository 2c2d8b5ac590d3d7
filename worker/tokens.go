package worker

import (
	"math"
	"slices"
	"sync"

	"github.com/evalfleet/evalfleet/providers"
)

// What a call's tokens are taken to be before any of its model were settled.
const (
	// A token is at least one byte in every tokenizer of the field, so that the
	// bytes of a request bound its input; messageTokens frame each message.
	messageTokens = 16
	// assumedOutput is reserved where the request sets no bound on its output.
	assumedOutput = 4096
	// assumedFound is what one search brings into the input: what OpenAI charges for
	// one of its small models, whatever is found.
	assumedFound = 8000
	// boundFor is how many calls of a model reserve the bound before what was
	// seen is trusted.
	boundFor = 20
	// remembered is how many settled calls of a model the estimate looks back on.
	remembered = 200
	// quantile of what was seen that is reserved.
	quantile = 0.99
)

// tokens learns from settled calls how many tokens to reserve for the next of
// their model. It is safe for concurrent use.
type tokens struct {
	mu sync.Mutex
	of map[string]*seen // by "provider:model"
}

// seen is what settled calls of a model used, the last ones in rings.
type seen struct {
	settled int
	perByte []float64 // input tokens for each byte asked
	output  []float64
}

func newTokens() *tokens { return &tokens{of: map[string]*seen{}} }

// reserve returns the input and output to reserve for a request: the first calls
// of a model reserve a bound, the later ones what 99 % of those seen would have
// needed, and never more than the bound. Of a provider that charges the bound on
// the output, whatever comes of it, that is reserved always.
func (t *tokens) reserve(model string, request *providers.Request, charged bool) (input, output int64) {
	size := sizeOf(request)
	input, output = size, assumedOutput
	if request.MaxOutputTokens > 0 {
		output = int64(request.MaxOutputTokens)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of[model]
	if s == nil || s.settled < boundFor {
		return input, output
	}
	input = min(input, int64(math.Ceil(high(s.perByte)*float64(size))))
	learnt := int64(math.Ceil(high(s.output)))
	switch {
	case request.MaxOutputTokens == 0:
		return input, learnt
	case charged:
		return input, output
	}
	return input, min(output, learnt)
}

// bytesPerToken is about what a token of English or code has, where none of a
// model's calls were settled yet.
const bytesPerToken = 4

// expect is how many tokens a request probably has.
func (t *tokens) expect(model string, request *providers.Request) int64 {
	size := float64(sizeOf(request))
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of[model]
	if s == nil || len(s.perByte) == 0 {
		return int64(size / bytesPerToken)
	}
	sum := 0.0
	for _, perByte := range s.perByte {
		sum += perByte
	}
	return int64(size * sum / float64(len(s.perByte)))
}

// bound returns tokens that a request does not pass, for what must not be passed:
// input where nothing is searched for, output where the request bounds it, or else
// what was seen lately and assumed.
func (t *tokens) bound(model string, request *providers.Request) (input, output int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := t.of[model]
	size := sizeOf(request)
	input, output = size, int64(request.MaxOutputTokens)
	if searches := int64(request.MostSearches()); searches > 0 {
		input += searches * assumedFound
		if seen != nil {
			input = max(input, int64(math.Ceil(slices.Max(seen.perByte)*float64(size))))
		}
	}
	if output == 0 {
		output = assumedOutput
		if seen != nil {
			output = max(output, int64(math.Ceil(slices.Max(seen.output))))
		}
	}
	return input, output
}

// settled notes what a call really used.
func (t *tokens) settled(model string, request *providers.Request, used providers.Usage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of[model]
	if s == nil {
		s = &seen{}
		t.of[model] = s
	}
	s.perByte = remember(s.perByte, s.settled, float64(used.Input)/float64(sizeOf(request)))
	s.output = remember(s.output, s.settled, float64(used.Output))
	s.settled++
}

// remember puts the n-th value into a ring.
func remember(ring []float64, n int, value float64) []float64 {
	if len(ring) < remembered {
		return append(ring, value)
	}
	ring[n%remembered] = value
	return ring
}

// high is the quantile of up to remembered values, by the nearest rank. Every call
// asks for it, so the few values above it are found in one pass.
func high(values []float64) float64 {
	k := len(values) - int(math.Ceil(quantile*float64(len(values)))) + 1 // the k-th from the top
	top := make([]float64, 0, 8)                                         // falling
	for _, v := range values {
		if len(top) == k && v <= top[k-1] {
			continue
		}
		at := len(top)
		for at > 0 && top[at-1] < v {
			at--
		}
		top = slices.Insert(top, at, v)
		top = top[:min(len(top), k)]
	}
	return top[k-1]
}

// sizeOf is the bytes of a request that a model reads, and what frames them.
func sizeOf(request *providers.Request) int64 {
	size := int64(messageTokens)
	for _, m := range request.Messages {
		size += int64(len(m.Content)) + messageTokens
	}
	if request.Schema != nil {
		size += int64(len(request.Schema.Schema))
	}
	return size
}
