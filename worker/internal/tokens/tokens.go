// Package tokens learns from calls that have ended how many tokens to reserve for the next.
package tokens

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/internal/redisx/outage"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// Assumptions about a call's tokens before calls of its model were settled.
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
	// remembered is how many settled calls of a model the estimate uses.
	remembered = 200
	// quantile is the quantile of the samples that is reserved.
	quantile = 0.99
)

// Learnt estimates the tokens that a model's next call will need from the settled calls of all workers. It is safe for
// concurrent use.
type Learnt struct {
	mu     sync.Mutex         // guards all below
	of     map[string]*seen   // by "provider:model"
	shares map[string]*shared // likewise
}

// shared is the state of a model's exchange of samples with other workers.
type shared struct {
	first sync.Once
	read  time.Time          // when the others' samples were read last
	asked bool               // an estimate was asked for since
	fresh []ratelimit.Sample // not published yet
}

const (
	// shareEvery is how often samples are published.
	shareEvery = time.Second
	// readEvery is how often a worker that has no samples to publish reads those of others.
	readEvery = 5 * time.Second
)

// seen holds what the last settled calls of a model used, in rings.
type seen struct {
	settled int
	perByte []float64 // input tokens for each byte of the request
	output  []float64
}

// New returns a Learnt without samples.
func New() *Learnt { return &Learnt{of: map[string]*seen{}, shares: map[string]*shared{}} }

// sharer exchanges samples with other workers. *ratelimit.Admin is one.
type sharer interface {
	ShareSamples(ctx context.Context, model string, fresh []ratelimit.Sample) (last []ratelimit.Sample, ever int, err error)
}

// sharedOf returns the state of a model's exchange of samples, which it creates if needed. The caller holds the lock.
func (t *Learnt) sharedOf(model string) *shared {
	s := t.shares[model]
	if s == nil {
		s = &shared{}
		t.shares[model] = s
	}
	return s
}

// Meet reads, before the first call of a model, what others have seen of it. Without that, a newcomer would reserve the
// bound and wait behind all workers that know better. If Redis does not answer, the bound is reserved.
func (t *Learnt) Meet(ctx context.Context, with sharer, model string) {
	t.mu.Lock()
	s := t.sharedOf(model)
	s.asked = true
	t.mu.Unlock()
	s.first.Do(func() { _ = t.share(ctx, with, model) })
}

// share publishes a model's fresh samples, and replaces the model's samples by those of all workers.
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
				break // continue at the next tick
			}
		}
	}
}

// due returns the models with fresh samples, and those with recent estimates from old samples.
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

// Reserve returns the input and output tokens to reserve for a request. The first calls of a model reserve a bound.
// Later calls reserve what would have been enough for 99 % of the calls seen, and never more than the bound. charged
// means that the provider charges the bound on the output regardless of usage; that bound is then always reserved.
func (t *Learnt) Reserve(model string, request *providers.Request, charged bool) (input, output int64) {
	size, images := sizeOf(request), imagesOf(request)
	input, output = size+images, assumedOutput
	if request.MaxOutputTokens > 0 {
		output = int64(request.MaxOutputTokens)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of[model]
	if s == nil || s.settled < boundFor {
		return input, output
	}
	input = images + min(size, int64(math.Ceil(high(s.perByte)*float64(size))))
	learnt := int64(math.Ceil(high(s.output)))
	switch {
	case request.MaxOutputTokens == 0:
		return input, learnt
	case charged:
		return input, output
	}
	return input, min(output, learnt)
}

// bytesPerToken is about the length of a token of English or code. It is used until calls of the model are settled.
const bytesPerToken = 4

// Expect returns how many input tokens a request probably has, by the average of the model's settled calls.
func (t *Learnt) Expect(model string, request *providers.Request) int64 {
	return int64(float64(sizeOf(request))*t.PerByte(model)) + imagesOf(request)
}

// PerByte returns how many input tokens a byte of a request to the model has, on the average of its settled calls.
func (t *Learnt) PerByte(model string) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of[model]
	if s == nil || len(s.perByte) == 0 {
		return 1.0 / bytesPerToken
	}
	sum := 0.0
	for _, perByte := range s.perByte {
		sum += perByte
	}
	return sum / float64(len(s.perByte))
}

// Bound returns tokens that a request cannot exceed, if known: input without searches, output bounded by the request.
// Otherwise it returns an estimate from recent samples and assumptions.
func (t *Learnt) Bound(model string, request *providers.Request) (input, output int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := t.of[model]
	size, images := sizeOf(request), imagesOf(request)
	input, output = size+images, int64(request.MaxOutputTokens)
	if searches := int64(request.MostSearches()); searches > 0 {
		input += searches * assumedFound
		if seen != nil {
			input = max(input, images+int64(math.Ceil(slices.Max(seen.perByte)*float64(size))))
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

// Settled records what a call really used. A call whose images alone were expected to use more says nothing about text,
// and is not recorded.
func (t *Learnt) Settled(model string, request *providers.Request, used providers.Usage) {
	text := used.Input - imagesOf(request)
	if text < 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of[model]
	if s == nil {
		s = &seen{}
		t.of[model] = s
	}
	sample := ratelimit.Sample{PerByte: float64(text) / float64(sizeOf(request)), Output: float64(used.Output)}
	s.add(sample)
	shared := t.sharedOf(model)
	shared.fresh = append(shared.fresh, sample)
}

func (s *seen) add(sample ratelimit.Sample) {
	s.perByte = remember(s.perByte, s.settled, sample.PerByte)
	s.output = remember(s.output, s.settled, sample.Output)
	s.settled++
}

// remember stores the n-th value in a ring and returns the ring.
func remember(ring []float64, n int, value float64) []float64 {
	if len(ring) < remembered {
		return append(ring, value)
	}
	ring[n%remembered] = value
	return ring
}

// high returns the quantile of up to remembered values, by the nearest rank. Every call needs it, so the few values
// above it are found in one pass.
func high(values []float64) float64 {
	k := len(values) - int(math.Ceil(quantile*float64(len(values)))) + 1 // the k-th from the top
	top := make([]float64, 0, 8)                                         // in falling order
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

// imagesOf returns the tokens of a request's images, by the rules of their provider or as a bound.
func imagesOf(request *providers.Request) (tokens int64) {
	for _, m := range request.Messages {
		for _, image := range m.Images {
			tokens += image.Tokens
		}
	}
	return tokens
}

// sizeOf returns how many bytes of text of a request the model reads, with an allowance for the frame of each message.
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
