// Package stop provides signals that end contexts, when a worker stops or an evaluation is
// halted. A signal outlives the contexts that it ends, which belong to single waits.
package stop

import (
	"context"
	"sync"
)

// Signal is given at most once, with a cause. It is safe for concurrent use.
type Signal struct {
	done chan struct{}

	mu    sync.Mutex // guards all below
	cause error
	waits map[*wait]struct{}
}

type wait struct{ end context.CancelCauseFunc }

// NewSignal returns a signal that is not given yet.
func NewSignal() *Signal {
	return &Signal{done: make(chan struct{}), waits: map[*wait]struct{}{}}
}

// Give gives the signal with a cause, which must not be nil. Only the first cause counts.
func (s *Signal) Give(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return
	}
	s.cause = cause
	close(s.done)
	for w := range s.waits {
		w.end(cause)
	}
	s.waits = nil
}

// Given returns the signal's cause, or nil before it is given.
func (s *Signal) Given() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// Done returns a channel that is closed when the signal is given.
func (s *Signal) Done() <-chan struct{} { return s.done }

// Context returns a child of ctx that also ends when one of some signals is given. Call release when the context is no
// longer needed.
func Context(ctx context.Context, signals ...*Signal) (ended context.Context, release func()) {
	ended, end := context.WithCancelCause(ctx)
	w := &wait{end}
	for _, s := range signals {
		s.add(w)
	}
	return ended, func() {
		for _, s := range signals {
			s.remove(w)
		}
		end(context.Canceled)
	}
}

func (s *Signal) add(w *wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		w.end(s.cause)
		return
	}
	s.waits[w] = struct{}{}
}

func (s *Signal) remove(w *wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waits, w)
}
