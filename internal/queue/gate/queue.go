package gate

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/evalfleet/evalfleet/internal/backoff"
	"github.com/evalfleet/evalfleet/internal/redisx/outage"
)

// queue is the gate's state of one queue.
type queue struct {
	name string
	keys queueKeys

	filled chan struct{} // something was pushed; has a buffer of one
	turn   chan struct{} // locked during I/O with Redis about the queue

	// Owned by the holder of the turn.
	more     bool      // something may be left to pull
	next     time.Time // when to look without an announcement
	failures int       // in a row
	retry    time.Time // not before
	lost     int64     // number of a pull with a lost answer; 0: none

	mu     sync.Mutex // guards the fields below
	closed bool
	buffer []pulled  // not handed over yet
	since  time.Time // when the buffer's tasks were requested
	timer  *time.Timer
}

// newQueue returns a queue. It calls stale when the buffer has become too old to be handed over.
func newQueue(name string, stale func(*queue)) *queue {
	q := &queue{
		name:   name,
		keys:   keysOf(name),
		filled: make(chan struct{}, 1),
		turn:   make(chan struct{}, 1),
	}
	q.timer = time.AfterFunc(time.Hour, func() { stale(q) })
	q.timer.Stop()
	return q
}

func (q *queue) announce() {
	select {
	case q.filled <- struct{}{}:
	default:
	}
}

func (q *queue) takeTurn(ctx context.Context) error {
	select {
	case q.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *queue) leaveTurn() { <-q.turn }

// handOver takes the next task out of the buffer, and notes it among those in hand.
func (q *queue) handOver(in *hands) (message string, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.buffer) == 0 || q.stale() {
		return "", false
	}
	task := q.buffer[0]
	q.buffer = q.buffer[1:]
	in.markHandedOver(q.keys.task+task.id, task.pull)
	return task.message, true
}

// ready reports whether a task can be handed over.
func (q *queue) ready() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.closed && len(q.buffer) > 0 && !q.stale()
}

// left reports whether the queue was left, so that nothing is pulled any more.
func (q *queue) left() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// stale reports whether the buffer is too old. q.mu must be held.
func (q *queue) stale() bool { return time.Since(q.since) >= handOverWithin }

// keep fills the empty buffer with the tasks requested at since.
func (q *queue) keep(tasks []pulled, since time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.buffer, q.since = tasks, since
	if len(tasks) > 0 && !q.closed {
		q.timer.Reset(time.Until(since.Add(handOverWithin)))
	}
}

// buffered returns the buffer, whose tasks can still be handed over.
func (q *queue) buffered() []pulled {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.buffer
}

// overdue returns the buffer if it is too old to be handed over; else nil.
func (q *queue) overdue() []pulled {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.buffer) == 0 || !q.stale() {
		return nil
	}
	return q.buffer
}

// empty empties the buffer, whose tasks were returned.
func (q *queue) empty() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.buffer = nil
}

// later schedules another call of newQueue's stale.
func (q *queue) later() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.timer.Reset(handOverWithin)
	}
}

// close ends handing over.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.timer.Stop()
}

// due blocks until there may be something to pull, or to return, and reports whether that came
// before ctx ended. The caller must have the turn.
func (q *queue) due(ctx context.Context) bool {
	if wait := time.Until(q.retry); wait > 0 && outage.Pause(ctx, wait) != nil {
		return false
	}
	if !q.more && len(q.overdue()) == 0 {
		timer := time.NewTimer(time.Until(q.next))
		defer timer.Stop()
		select {
		case <-q.filled:
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	}
	q.more = true // until a pull has shown otherwise
	return ctx.Err() == nil
}

// looked notes the answer of a pull. If the queue is empty, it is not looked at for fallback unless
// something is announced. again reports whether this is the first successful pull after a failed
// one.
func (q *queue) looked(answer taken, fallback time.Duration) (again bool) {
	q.more = answer.left > 0 && !answer.paused
	q.next = time.Now().Add(fallback)
	again, q.failures = q.failures > 0, 0
	return again
}

// pullWaits are the waits after failed pulls, of which up to half is cut off at random.
var pullWaits = backoff.Waits{First: 100 * time.Millisecond, Longest: 2 * time.Second, Factor: 2}

// failed postpones the next attempt. first reports whether this is the first failure after a
// successful pull.
func (q *queue) failed() (first bool) {
	q.retry = time.Now().Add(backoff.Shorten(pullWaits.After(q.failures), 0.5, rand.Float64()))
	q.failures++
	return q.failures == 1
}
