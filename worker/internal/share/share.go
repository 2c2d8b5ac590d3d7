// Package share divides the slots of a process among its queues: it decides how many tasks of
// which queue may be pulled, so that those that cannot start soon stay where any worker can
// take them.
package share

import (
	"context"
	"math"
	"sync"
	"time"
)

// Stage is how far a pulled task has come.
type Stage int

// The stages of a task.
const (
	Ready   Stage = iota // pulled, and waiting for admission or about to
	Flying               // its call is in flight
	Resting              // needs no slot now: waiting for a retry, or being recorded
	stages
)

const (
	// Batch is the most tasks that one pull takes.
	Batch = 16
	// mostReady is the maximum number of tasks waiting for admission when nothing delays them: while some are asked
	// for, the next are pulled.
	mostReady = 4 * Batch
	// mostAside is the maximum number of tasks pulled ahead while limits delay them, so that
	// they are pulled and ask for admission several at a time.
	mostAside = Batch / 4
	// asideFor is how long tasks pulled ahead may have to wait at the pace of late.
	asideFor = 250 * time.Millisecond
)

// Shares decides when tasks may be pulled: only as many as may soon start. The others stay in their queue, where any
// worker can take them, and not with a worker that has no slot for them.
//
// Per queue, a pull is allowed while fewer tasks wait for admission than a tenth of those in flight, and at least one.
// If limits delay them, as many may wait as are in flight or have started in asideFor, up to mostAside and half of the
// idle slots.
//
// While runs are admitted without having to wait, and this process has fewer in flight than their limits allow in all,
// the allowance doubles with each of them, up to mostReady. So queues fill fast and unlimited ones are pulled in
// batches. A pull is made once there is room for as many tasks as are ready, so that it takes several.
//
// # Shares
//
// Queues share the slots of the process by max-min fairness: while n queues have work, each may hold an n-th of the
// slots, and unused slots go to the others. A queue alone uses all. Without shares, a queue whose calls take long takes
// every slot that another gives back, and keeps it.
//
// A slot is not taken from a call that holds it, so shares alone would let a newcomer wait as long as the longest call.
// So the part of its share that a queue does not hold at the moment is kept for it, up to the share it used lately: its
// short calls end, and the next are pulled a moment later.
//
// For a queue that has no work, one slot is kept for newcomerTime after it had some or was first served. So its next
// run starts at once and the others follow as slots come free. That costs the busy queues one slot for each such queue,
// a tenth of all slots at most. A queue that was alone, and holds every slot when another is first served, gives back a
// slot with each call that ends.
type Shares struct {
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
	coming    int // those of the ready that are reserved for a pull under way
	pending   int // tasks that the last pull left in the queue
	asking    int // pulls that wait for room
	hold      int // tasks that may be held, while held back; see Hold
	heldBack  bool

	started [mostAside]time.Time // when the last calls started, the oldest first

	used   [2]int    // the most that were held and asked for, in the time before and in this one
	since  time.Time // when this time began
	worked time.Time // when it had work last, or was first served
}

const (
	// usedTime is the length of the periods over which use of a share is measured; the last two are remembered.
	usedTime = 5 * time.Second
	// newcomerTime is the time for which a slot is kept for a queue without work.
	newcomerTime = time.Minute
)

// New returns the shares of a process with a number of slots.
func New(slots int) *Shares {
	return &Shares{slots: slots, most: slots + max(1, slots/10), now: time.Now, queues: map[string]*load{}}
}

// Most returns how many tasks the process may hold in all.
func (s *Shares) Most() int { return s.most }

// Reserve blocks until at least one task of queue may be pulled. It reserves room for as many as may be pulled, up to
// limit, and returns that number. Leave or Cancel gives each back.
func (s *Shares) Reserve(ctx context.Context, queue string, limit int) (int, error) {
	s.mu.Lock()
	s.loadOf(queue).asking++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.loadOf(queue).asking--
		s.mu.Unlock()
	}()

	for {
		s.mu.Lock()
		l := s.loadOf(queue)
		waiting := l.at[Ready]
		soon := min(l.allowance, l.most-l.at[Flying]) // may start at once, as far as this process knows
		room := max(soon, l.at[Flying]/10, 1) - waiting
		if room >= waiting {
			l.use(room, s.now())
		}
		if l.allowance == 1 { // limits delay them
			room = max(room, min(max(l.at[Flying], l.pace(s.now())), mostAside, (s.slots-s.held)/2)-waiting)
		}
		room = min(room, s.share(queue))
		if l.heldBack {
			room = min(room, l.hold-l.held())
		}
		if room > 0 && room >= waiting { // otherwise a pull is not worth it yet
			allowed := min(room, limit)
			l.at[Ready] += allowed
			l.coming += allowed
			s.held += allowed
			s.mu.Unlock()
			return allowed, nil
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// share returns how many more tasks of a queue may be held.
func (s *Shares) share(queue string) int {
	now, busy, newcomers := s.now(), 0, 0
	for name, l := range s.queues {
		switch {
		case name == queue, l.busy():
			busy++
		case now.Sub(l.worked) < newcomerTime:
			newcomers++
		}
	}
	newcomers = min(newcomers, s.slots/10)
	fair, kept := max(1, (s.slots-newcomers)/busy), 0
	for name, l := range s.queues {
		if name != queue && l.busy() {
			kept += max(0, min(fair, l.lately(now))-l.held())
		}
	}
	all := s.slots // tasks beyond that would wait for a slot ahead of other queues' tasks
	if busy == 1 && newcomers == 0 {
		all = s.most
	}
	own := min(fair-s.loadOf(queue).held(), s.most-s.held)
	return max(own, all-s.held-kept-newcomers)
}

// held returns how many tasks of the queue this process holds.
func (l *load) held() int { return l.at[Ready] + l.at[Flying] + l.at[Resting] }

// pace returns how many calls start in asideFor, at the pace of the last mostAside calls; 0 if there were fewer.
func (l *load) pace(now time.Time) int {
	if l.started[0].IsZero() {
		return 0
	}
	return int(mostAside * asideFor / max(now.Sub(l.started[0]), time.Millisecond))
}

// busy reports whether the queue has work, as far as this process knows.
func (l *load) busy() bool { return l.asking > 0 || l.pending > 0 || l.held() > 0 }

// use records that the queue holds tasks and could use more of them.
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

// lately returns the most tasks that the queue has held and asked for in the last one or two usedTime.
func (l *load) lately(now time.Time) int {
	if now.Sub(l.since) >= 2*usedTime {
		return l.held()
	}
	return max(l.used[0], l.used[1])
}

// Pulled records how many tasks a pull left in queue.
func (s *Shares) Pulled(queue string, _ int, left int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.loadOf(queue)
	l.coming, l.pending = 0, int(left)
}

// Depth returns how many pushed tasks of queue are waiting: those in the queue at this process's last pull, and those
// of this process that wait for admission.
func (s *Shares) Depth(queue string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.loadOf(queue)
	return l.pending + l.at[Ready] - l.coming
}

// Cancel gives back n reservations for which no task came.
func (s *Shares) Cancel(queue string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.loadOf(queue)
	l.at[Ready] -= n
	l.coming = max(0, l.coming-n)
	s.held -= n
	s.signal()
}

// Move records that a task changes from one stage to another.
func (s *Shares) Move(queue string, from, to Stage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.loadOf(queue)
	l.at[from]--
	l.at[to]++
	if to == Flying {
		copy(l.started[:], l.started[1:])
		l.started[mostAside-1] = s.now()
	}
	s.signal()
}

// Leave records that the process no longer holds a task.
func (s *Shares) Leave(queue string, from Stage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loadOf(queue).at[from]--
	s.held--
	s.signal()
}

// Admitted records whether a run had to wait for its lease.
func (s *Shares) Admitted(queue string, waited bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.loadOf(queue)
	if waited {
		l.allowance = 1
	} else {
		l.allowance = min(2*l.allowance, mostReady)
	}
}

// Allow sets how many calls of a queue may be in flight in all processes.
func (s *Shares) Allow(queue string, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loadOf(queue).most = most
}

// Hold limits how many tasks of a queue may be held; below 0: as usual.
func (s *Shares) Hold(queue string, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.loadOf(queue)
	if held := most >= 0; held != l.heldBack || held && most != l.hold {
		l.hold, l.heldBack = most, held
		s.signal()
	}
}

// InFlight returns how many calls of this process are in flight.
func (s *Shares) InFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, l := range s.queues {
		n += l.at[Flying]
	}
	return n
}

// Idle reports whether no task of a queue is held.
func (s *Shares) Idle(queue string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loadOf(queue).at == [stages]int{}
}

func (s *Shares) loadOf(queue string) *load {
	l, ok := s.queues[queue]
	if !ok {
		l = &load{allowance: 1, most: math.MaxInt, worked: s.now()}
		s.queues[queue] = l
	}
	return l
}

func (s *Shares) signal() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}
