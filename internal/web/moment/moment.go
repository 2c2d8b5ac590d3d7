// Package moment bounds the cost of expensive answers that many may request. Each answer is made
// once for all who wait for it, few are made at a time, and each is kept for a moment.
package moment

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrBusy means that too many other answers are ahead of this one.
var ErrBusy = errors.New("too many expensive requests; try again in a moment")

// Cache makes and keeps answers. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	// Make makes the answer for a key. Its context ends when the last waiter has left.
	Make func(context.Context, K) (V, error)
	// Keep is how long an answer is kept after it was made, or as long as making it took, if that
	// is longer. Errors are not kept.
	Keep time.Duration
	// AtOnce is how many answers are made at a time, and Waiting how many may wait for their turn.
	// Further requests get ErrBusy.
	AtOnce, Waiting int

	once  sync.Once
	slots chan struct{}

	mu      sync.Mutex // guards all below
	waiting int
	answers map[K]*answer[V]
}

type answer[V any] struct {
	made    chan struct{} // closed once value and err are set
	value   V
	err     error
	waiters int // guarded by Cache.mu
	cancel  context.CancelFunc
}

// Get returns an answer that is at most as old as Keep allows. It returns early when ctx
// ends.
func (c *Cache[K, V]) Get(ctx context.Context, key K) (V, error) {
	c.once.Do(func() { c.slots, c.answers = make(chan struct{}, c.AtOnce), map[K]*answer[V]{} })
	a, err := c.join(ctx, key)
	if err != nil {
		var none V
		return none, err
	}
	defer c.leave(key, a)
	select {
	case <-a.made:
		return a.value, a.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

// join waits for an answer together with others, or begins to make it.
func (c *Cache[K, V]) join(ctx context.Context, key K) (*answer[V], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.answers[key]
	if a == nil {
		if c.waiting >= c.AtOnce+c.Waiting {
			return nil, ErrBusy
		}
		making, cancel := context.WithCancel(context.WithoutCancel(ctx)) // others wait for it, too
		a = &answer[V]{made: make(chan struct{}), cancel: cancel}
		c.answers[key] = a
		c.waiting++
		go c.make(making, key, a)
	}
	a.waiters++
	return a, nil
}

// leave cancels an answer without waiters.
func (c *Cache[K, V]) leave(key K, a *answer[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.waiters--
	select {
	case <-a.made:
		return
	default:
	}
	if a.waiters == 0 {
		a.cancel()
		c.forget(key, a)
	}
}

// forget makes the next request for a key start again. c.mu must be held.
func (c *Cache[K, V]) forget(key K, a *answer[V]) {
	if c.answers[key] == a {
		delete(c.answers, key)
	}
}

func (c *Cache[K, V]) make(ctx context.Context, key K, a *answer[V]) {
	defer a.cancel()
	keep := time.Duration(0)
	select {
	case c.slots <- struct{}{}:
		began := time.Now()
		a.value, a.err = c.Make(ctx, key)
		<-c.slots
		keep = max(c.Keep, time.Since(began))
	case <-ctx.Done():
		a.err = ctx.Err()
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
	close(a.made)
	if a.err != nil {
		c.forget(key, a)
		return
	}

	time.AfterFunc(keep, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.forget(key, a)
	})
}
