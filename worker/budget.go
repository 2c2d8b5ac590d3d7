package worker

import (
	"context"
	"math"
	"sync"
	"time"
)

// stage is how far a pulled task has come.
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
	// mostReady is the maximum number of tasks waiting for admission when nothing delays them:
	// while some are asked for, the next are pulled.
	mostReady = 4 * pullBatch
)

// budget decides when tasks may be pulled: only as many as may soon start, so that tasks stay
// in their queue, where any worker can take them, and not with a worker that has no slot for
// them.
//
// Per queue, a pull is allowed while fewer tasks wait for admission than a tenth of those in
// flight, and at least one. While runs are admitted without having to wait, and this process
// has fewer in flight than their limits allow in all, the allowance doubles with each of them,
// up to mostReady, so that queues are filled fast and unlimited ones are pulled in batches. A
// pull is made once there is room for as many tasks as are ready, so that it takes several.
//
// # Shares
//
// Queues share the slots of the process by max-min fairness: while n queues have work, each may
// hold an n-th of the slots, and unused slots go to the others. A queue alone uses all. Without
// shares, a queue whose calls take long takes every slot that another gives back, and keeps it.
//
// A slot is not taken from a call that holds it, so shares alone would let a newcomer wait as
// long as the longest call. So the part of its share that a queue does not hold at the moment
// is kept for it, up to the share it used lately: its short calls end, and the next are pulled
// a moment later. For a queue that has no work, one slot is kept for newcomerTime after it had
// some or was first served, so that its next run starts at once and the others follow as slots
// come free. That costs the busy queues one slot for each such queue, a tenth of all slots at
// most. A queue that was alone, and holds every slot when another is first served, gives back a
// slot with each call that ends.
type budget struct {
	slots int // calls of this process at once
	most  int // tasks held by this process in all
	now   func() time.Time

	mu      sync.Mutex // guards all below
	queues  map[string]*load
	held    int
	changed chan struct{} // closed when room was given back; nil: no waiter
}

type load struct {
	at        [stages]int
	allowance int
	most      int // calls in flight that the limits allow in all
	coming    int // of those ready, reserved for a pull that has not answered
	pending   int // tasks in the queue, as the last pull left them
	asking    int // pulls that wait for room

	used   [2]int    // the most that were held and asked for, in the time before and in this one
	since  time.Time // when this time began
	worked time.Time // when it had work last, or was first served
}

const (
	// usedTime is the time for which the use of a share is remembered, once or twice.
	usedTime = 5 * time.Second
	// newcomerTime is the time for which a slot is kept for a queue without work.
	newcomerTime = time.Minute
)

func newBudget(slots int) *budget {
	return &budget{slots: slots, most: slots + max(1, slots/10), now: time.Now, queues: map[string]*load{}}
}

// Reserve blocks until at least one task of queue may be pulled and reserves
// room for as many as may, up to limit. Each is given back by leave or Cancel.
func (b *budget) Reserve(ctx context.Context, queue string, limit int) (int, error) {
	b.mu.Lock()
	b.of(queue).asking++
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.of(queue).asking--
		b.mu.Unlock()
	}()
	for {
		b.mu.Lock()
		l := b.of(queue)
		waiting := l.at[ready]
		soon := min(l.allowance, l.most-l.at[flying]) // may start at once, to this process's knowledge
		room := max(soon, l.at[flying]/10, 1) - waiting
		if room >= waiting {
			l.use(room, b.now())
		}
		room = min(room, b.share(queue))
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

// share returns how many more tasks of a queue may be held.
func (b *budget) share(queue string) int {
	now, busy, newcomers := b.now(), 0, 0
	for name, l := range b.queues {
		switch {
		case name == queue, l.busy():
			busy++
		case now.Sub(l.worked) < newcomerTime:
			newcomers++
		}
	}
	newcomers = min(newcomers, b.slots/10)
	fair, kept := max(1, (b.slots-newcomers)/busy), 0
	for name, l := range b.queues {
		if name != queue && l.busy() {
			kept += max(0, min(fair, l.lately(now))-l.held())
		}
	}
	all := b.slots // tasks that wait for a slot would be ahead of those of others
	if busy == 1 && newcomers == 0 {
		all = b.most
	}
	own := min(fair-b.of(queue).held(), b.most-b.held)
	return max(own, all-b.held-kept-newcomers)
}

// held is how many tasks of the queue this process holds.
func (l *load) held() int { return l.at[ready] + l.at[flying] + l.at[resting] }

// busy reports whether the queue has work, to this process's knowledge.
func (l *load) busy() bool { return l.asking > 0 || l.pending > 0 || l.held() > 0 }

// use notes that the queue holds tasks and could do with more.
func (l *load) use(more int, now time.Time) {
	l.worked = now
	if gone := now.Sub(l.since); gone >= usedTime {
		l.used[0], l.used[1], l.since = l.used[1], 0, now
		if gone >= 2*usedTime {
			l.used[0] = 0
		}
	}
	l.used[1] = max(l.used[1], l.held()+more)
}

// lately is the most that the queue has used lately.
func (l *load) lately(now time.Time) int {
	if now.Sub(l.since) >= 2*usedTime {
		return l.held()
	}
	return max(l.used[0], l.used[1])
}

// pulled notes how many tasks a pull left in queue.
func (b *budget) pulled(queue string, _ int, left int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.of(queue)
	l.coming, l.pending = 0, int(left)
}

// depth is how many pushed tasks of queue are waiting: those in the queue at this process's
// last pull, and those of this process that wait for admission.
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
		l = &load{allowance: 1, most: math.MaxInt, worked: b.now()}
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
