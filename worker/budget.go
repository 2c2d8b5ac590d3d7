package worker

import (
	"context"
	"math"
	"sync"
)

// stage is where a pulled task stands.
type stage int

const (
	ready   stage = iota // pulled, and waiting for admission or about to
	flying               // its call is in flight
	resting              // wants no slot now: waiting for a retry, or being recorded
	stages
)

const (
	// pullBatch is the most tasks that one pull takes.
	pullBatch = 16
	// mostReady is the most tasks that stand before admission where nothing holds
	// them up: while some are asked for, the next are pulled.
	mostReady = 4 * pullBatch
)

// budget decides when tasks may be pulled: only as many as may soon start, so
// that tasks stand in their queue, where everybody can take them, and not with
// a worker that has no slot for them.
//
// Per queue, a pull is allowed while fewer tasks wait for admission than a
// tenth of those in flight, and at least one. While runs are admitted without
// having to wait, and this process has fewer in flight than their limits allow
// in all, the allowance doubles with each of them, up to mostReady, so that
// queues are filled fast and unlimited ones are pulled in batches. A pull is made
// once there is room for as many as stand ready, so that it takes several.
type budget struct {
	most int // tasks held by this process in all

	mu      sync.Mutex // guards all below
	queues  map[string]*load
	held    int
	changed chan struct{} // closed when something was given back; nil: nobody waits for it
}

type load struct {
	at        [stages]int
	allowance int
	most      int // calls in flight that the limits allow in all
	coming    int // of those ready, reserved for a pull that has not answered
	pending   int // tasks in the queue, as the last pull left them
}

func newBudget(slots int) *budget {
	return &budget{most: slots + max(1, slots/10), queues: map[string]*load{}}
}

// Reserve blocks until at least one task of queue may be pulled and reserves
// room for as many as may, up to limit. Each is given back by leave or Cancel.
func (b *budget) Reserve(ctx context.Context, queue string, limit int) (int, error) {
	for {
		b.mu.Lock()
		l := b.of(queue)
		waiting := l.at[ready]
		soon := min(l.allowance, l.most-l.at[flying]) // may start at once, as far as this process knows
		room := min(max(soon, l.at[flying]/10, 1)-waiting, b.most-b.held)
		if room > 0 && room >= waiting { // else it is not worth a pull yet
			allowed := min(room, limit)
			l.at[ready] += allowed
			l.coming += allowed
			b.held += allowed
			b.mu.Unlock()
			return allowed, nil
		}
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// pulled notes how many tasks a pull left in queue.
func (b *budget) pulled(queue string, _ int, left int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.of(queue)
	l.coming, l.pending = 0, int(left)
}

// depth is how many tasks of queue have been pushed and wait: those in the queue,
// as the last pull of this process left it, and those of this process that stand
// before admission.
func (b *budget) depth(queue string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.of(queue)
	return l.pending + l.at[ready] - l.coming
}

// Cancel gives n reservations back that no task came for.
func (b *budget) Cancel(queue string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.of(queue)
	l.at[ready] -= n
	l.coming = max(0, l.coming-n)
	b.held -= n
	b.signal()
}

// move notes that a task goes from one stage to another.
func (b *budget) move(queue string, from, to stage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.of(queue)
	l.at[from]--
	l.at[to]++
	b.signal()
}

// leave notes that a task is done with.
func (b *budget) leave(queue string, from stage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of(queue).at[from]--
	b.held--
	b.signal()
}

// admitted notes whether a run had to wait for its lease.
func (b *budget) admitted(queue string, waited bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.of(queue)
	if waited {
		l.allowance = 1
	} else {
		l.allowance = min(2*l.allowance, mostReady)
	}
}

// allow notes how many calls of a queue may be in flight in all.
func (b *budget) allow(queue string, most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of(queue).most = most
}

// inFlight is how many calls are being made.
func (b *budget) inFlight() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, l := range b.queues {
		n += l.at[flying]
	}
	return n
}

// idle reports whether no task of a queue is held.
func (b *budget) idle(queue string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(queue).at == [stages]int{}
}

func (b *budget) of(queue string) *load {
	l, ok := b.queues[queue]
	if !ok {
		l = &load{allowance: 1, most: math.MaxInt}
		b.queues[queue] = l
	}
	return l
}

func (b *budget) signal() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}
