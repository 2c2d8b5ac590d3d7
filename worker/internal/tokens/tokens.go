// Package tokens learns from calls that have ended how many tokens to reserve for the next.
package tokens

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/internal/outage"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// What a call's tokens are taken to be before any of its model were settled.
const (
	// A token is at least one byte in every tokenizer of the field, so that the
	// bytes of a request bound its input; messageTokens frame each message.
	messageTokens = 16
	// assumedOutput is reserved where the request sets no bound on its output.
	assumedOutput = 4096
	// assumedFound is how many tokens one search adds to the input: OpenAI charges this for one
	// of its small models, whatever is found.
	assumedFound = 8000
	// boundFor is how many calls of a model reserve the bound before samples are trusted.
	boundFor = 20
	// remembered is how many settled calls of a model the estimate looks back on.
	remembered = 200
	// quantile of the samples that is reserved.
	quantile = 0.99
)

// Learnt is what settled calls, of all workers, tell of the tokens that the next of their model
// will need. It is safe for concurrent use.
type Learnt struct {
	mu     sync.Mutex         // guards all below
	of     map[string]*seen   // by "provider:model"
	shares map[string]*shared // likewise
}

// shared is how a model's samples are exchanged with other workers.
type shared struct {
	first sync.Once
	read  time.Time          // when the others' were read last
	asked bool               // an estimate was asked for since
	fresh []ratelimit.Sample // not told yet
}

const (
	// shareEvery is how often samples are told.
	shareEvery = time.Second
	// readEvery is how often they are read by a worker that has none to tell.
	readEvery = 5 * time.Second
)

// seen is what settled calls of a model used, the last ones in rings.
type seen struct {
	settled int
	perByte []float64 // input tokens for each byte asked
	output  []float64
}

// New returns a Learnt that knows nothing yet.
func New() *Learnt { return &Learnt{of: map[string]*seen{}, shares: map[string]*shared{}} }

// sharer exchanges samples with other workers. *ratelimit.Admin is one.
type sharer interface {
	ShareSamples(ctx context.Context, model string, fresh []ratelimit.Sample) (last []ratelimit.Sample, ever int, err error)
}

// sharedOf is how a model's samples are exchanged. The lock is held.
func (t *Learnt) sharedOf(model string) *shared {
	s := t.shares[model]
	if s == nil {
		s = &shared{}
		t.shares[model] = s
	}
	return s
}

// Meet reads, before the first call of a model, what others have seen of it: a newcomer
// that reserved the bound would wait behind all who know better. Where Redis does not
// answer the bound is reserved.
func (t *Learnt) Meet(ctx context.Context, with sharer, model string) {
	t.mu.Lock()
	s := t.sharedOf(model)
	s.asked = true
	t.mu.Unlock()
	s.first.Do(func() { _ = t.share(ctx, with, model) })
}

// share tells a model's fresh samples, and takes those of all in place of its own.
func (t *Learnt) share(ctx context.Context, with sharer, model string) error {
	t.mu.Lock()
	s := t.sharedOf(model)
	told := s.fresh
	s.fresh, s.asked, s.read = nil, false, time.Now()
	t.mu.Unlock()
	last, ever, err := with.ShareSamples(ctx, model, told)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		s.fresh = append(told, s.fresh...)
		s.fresh = s.fresh[max(0, len(s.fresh)-remembered):]
		return err
	}
	if len(last) == 0 {
		return nil
	}
	all := &seen{settled: ever}
	for _, sample := range last {
		all.perByte, all.output = append(all.perByte, sample.PerByte), append(all.output, sample.Output)
	}
	for _, sample := range s.fresh {
		all.add(sample)
	}
	t.of[model] = all
	return nil
}

// Exchange shares samples until ctx ends.
func (t *Learnt) Exchange(ctx context.Context, with sharer) {
	for outage.Pause(ctx, shareEvery) == nil {
		for _, model := range t.due() {
			if t.share(ctx, with, model) != nil {
				break // the next time
			}
		}
	}
}

// due are the models with fresh samples, and those asked about whose samples are old.
func (t *Learnt) due() (models []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for model, s := range t.shares {
		if len(s.fresh) > 0 || s.asked && time.Since(s.read) > readEvery {
			models = append(models, model)
		}
	}
	return models
}

// Reserve returns the input and output to reserve for a request: the first calls of a model
// reserve a bound, the later ones what 99 % of those seen would have needed, and never more
// than the bound. For a provider that charges the bound on the output regardless of usage, that
// bound is always reserved.
func (t *Learnt) Reserve(model string, request *providers.Request, charged bool) (input, output int64) {
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

// Expect is how many tokens a request probably has.
func (t *Learnt) Expect(model string, request *providers.Request) int64 {
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

// Bound returns tokens that a request cannot exceed, if known: input without searches, output
// bounded by the request. Otherwise it returns an estimate from recent samples and assumptions.
func (t *Learnt) Bound(model string, request *providers.Request) (input, output int64) {
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

// Settled notes what a call really used.
func (t *Learnt) Settled(model string, request *providers.Request, used providers.Usage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of[model]
	if s == nil {
		s = &seen{}
		t.of[model] = s
	}
	sample := ratelimit.Sample{PerByte: float64(used.Input) / float64(sizeOf(request)), Output: float64(used.Output)}
	s.add(sample)
	shared := t.sharedOf(model)
	shared.fresh = append(shared.fresh, sample)
}

func (s *seen) add(sample ratelimit.Sample) {
	s.perByte = remember(s.perByte, s.settled, sample.PerByte)
	s.output = remember(s.output, s.settled, sample.Output)
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
