package providers

import "context"

// Bounds on answers.
const (
	// DefaultAnswer is the maximum length of an answer, in bytes, if none is set.
	DefaultAnswer = 1 << 20
	// SmallAnswer is how many bytes every call may read without asking for room.
	SmallAnswer = 64 << 10
)

// Reading limits how much calls read of answers. The zero value reads DefaultAnswer.
type Reading struct {
	Most int // bytes of one answer; 0: DefaultAnswer
	// Room is called before more than SmallAnswer is read. It waits until there is memory for Most bytes. Its error
	// ends the call. nil: memory is not limited.
	Room func(ctx context.Context) error
}

type readingKey struct{}

// WithReading returns a context under which calls read answers according to r.
func WithReading(ctx context.Context, r Reading) context.Context {
	return context.WithValue(ctx, readingKey{}, r)
}

// ReadingOf returns the Reading of the context, with defaults applied.
func ReadingOf(ctx context.Context) Reading {
	r, _ := ctx.Value(readingKey{}).(Reading)
	if r.Most == 0 {
		r.Most = DefaultAnswer
	}
	if r.Room == nil {
		r.Room = func(context.Context) error { return nil }
	}
	return r
}
