// Package batch lets goroutines that need the same operation at the same time share one round
// trip to Redis.
//
// A request made while none is under way is sent at once, unless a Pause was asked for;
// requests made meanwhile are sent together when it has returned. The package neither retries
// nor knows the content of requests.
package batch

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// Config says how requests are batched.
type Config struct {
	Most int // requests per batch; at least 1
	// Pause is the shortest time between the starts of two batches, for requests that are not
	// urgent. A batch of Enough does not wait for it. 0: none.
	Pause  time.Duration
	Enough int
}

// Batcher sends requests Q in batches, and distributes their answers A. Make it with New. It is
// safe for concurrent use.
type Batcher[Q, A any] struct {
	cfg  Config
	send func(batch []Q) ([]A, error)
	full chan struct{} // signals that enough requests wait; has a buffer of one

	mu      sync.Mutex // guards all below
	waiting []*question[Q, A]
	sending bool
	began   time.Time // start of the last batch
}

type question[Q, A any] struct {
	q        Q
	answer   A
	err      error
	answered chan struct{}
}

// New returns a Batcher. send must end by itself, and return an answer for each request, in order,
// or one error for all. Only one goroutine at a time calls it.
func New[Q, A any](cfg Config, send func([]Q) ([]A, error)) *Batcher[Q, A] {
	return &Batcher[Q, A]{cfg: cfg, send: send, full: make(chan struct{}, 1)}
}

// Do sends q and blocks until it is answered, or until ctx ends. In that case, q may still be sent.
func (b *Batcher[Q, A]) Do(ctx context.Context, q Q) (answer A, err error) {
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	asked := &question[Q, A]{q: q, answered: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, asked)
	if !b.sending {
		b.sending = true
		go b.work()
	} else if len(b.waiting) == b.cfg.Enough {
		select {
		case b.full <- struct{}{}:
		default:
		}
	}
	b.mu.Unlock()
	select {
	case <-asked.answered:
		return asked.answer, asked.err
	case <-ctx.Done():
		return answer, ctx.Err()
	}
}

// work sends batches until nothing waits.
func (b *Batcher[Q, A]) work() {
	for {
		runtime.Gosched() // gather requests that started together
		b.pause()
		asked := b.nextBatch()
		if asked == nil {
			return
		}
		questions := make([]Q, len(asked))
		for i, a := range asked {
			questions[i] = a.q
		}
		answers, err := b.send(questions)
		for i, a := range asked {
			if err == nil {
				a.answer = answers[i]
			}
			a.err = err
			close(a.answered)
		}
	}
}

// pause waits until the next batch may begin.
func (b *Batcher[Q, A]) pause() {
	b.mu.Lock()
	n, left := len(b.waiting), b.cfg.Pause-time.Since(b.began)
	b.mu.Unlock()
	if n == 0 || n >= b.cfg.Enough || left <= 0 {
		select {
		case <-b.full: // it was sent for the requests of this batch
		default:
		}
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.full:
	}
}

// nextBatch returns the next batch. If nothing waits, it returns nil, and the sending goroutine must
// end.
func (b *Batcher[Q, A]) nextBatch() []*question[Q, A] {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), b.cfg.Most)
	if n == 0 {
		b.sending = false
		return nil
	}
	b.began = time.Now()
	asked := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	return asked
}
