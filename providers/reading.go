package providers

import "context"

// Bounds on answers.
const (
	// DefaultAnswer is how long an answer may be where nothing else is said.
	DefaultAnswer = 1 << 20
	// SmallAnswer is what every call may read without asking for room.
	SmallAnswer = 64 << 10
)

// Reading bounds what calls read of answers. The zero value reads DefaultAnswer.
type Reading struct {
	Most int // bytes of one answer; 0: DefaultAnswer
	// Room is called before more than SmallAnswer is read, and waits until there is
	// memory for Most bytes. Its error ends the call. nil: there always is.
	Room func(ctx context.Context) error
}

type readingKey struct{}

// WithReading gives r to the calls that are made under the context.
func WithReading(ctx context.Context, r Reading) context.Context {
	return context.WithValue(ctx, readingKey{}, r)
}

// ReadingOf is what WithReading gave to the context, with defaults.
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
