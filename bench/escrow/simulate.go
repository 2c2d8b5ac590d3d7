package escrow

import (
	"container/heap"
	"math/rand/v2"
	"slices"
)

// Config describes a simulated fleet. Times are in milliseconds.
type Config struct {
	Shards  int
	Limit   int
	Length  int       // of the simulation
	Faults  bool      // messages are lost and repeated, and servers lose their memory
	Without Safeguard // the safeguard to leave out, or 0
}

// Result is what a simulation counted.
type Result struct {
	Calls      int
	Violations int     // calls that started while the limit was reached
	Overlent   int     // checks at which the shards together could have admitted more than the limit
	Peak       int     // most calls in flight
	Used       float64 // share of the limit in use while work waited in some shard
	Losses     int     // memories lost
}

const (
	longestCall = 400
	longestTrip = 20  // of a message
	patience    = 250 // until a message is sent again
	lease       = 100 // until a shard that lost its memory knows its calls in flight
	tick        = 10  // between looks at the demand
)

// shard admits calls within its allotment.
type shard struct {
	memory
	inFlight  int // the true number, whatever the shard remembers
	waiting   int // demand
	pending   *message
	sent      int // when pending was sent last
	closed    int // admits nothing before this time
	lost      bool
	oldCopies []memory
}

// memory is what a shard keeps in Redis.
type memory struct {
	allotment   int
	epoch       int
	incarnation int
	sequence    int
}

type event struct {
	at, order int
	do        func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

type simulation struct {
	Config
	Result
	random *rand.Rand
	now    int
	order  int
	queue  events
	ledger ledger
	copies [][]account // older memories of the ledger
	shards []*shard
	epochs int
	nonces int
	busy   [2]int // sums of calls in flight and of the limit, while work waited
}

// Simulate runs a random schedule, which the seed determines.
func Simulate(c Config, seed uint64) Result {
	s := &simulation{Config: c, random: rand.New(rand.NewPCG(seed, 0))}
	s.ledger = ledger{limit: c.Limit, epoch: 1, without: c.Without, accounts: make([]account, c.Shards)}
	s.epochs = 1
	for i := range c.Shards {
		s.ledger.accounts[i].asserted = true
		s.shards = append(s.shards, &shard{memory: memory{epoch: 1}})
		s.after(i, func() { s.look(i) })
	}
	if c.Faults {
		s.after(500, s.fault)
	}
	for len(s.queue) > 0 && s.now < c.Length {
		next := heap.Pop(&s.queue).(event)
		s.now = next.at
		next.do()
	}
	if s.busy[1] > 0 {
		s.Used = float64(s.busy[0]) / float64(s.busy[1])
	}
	return s.Result
}

func (s *simulation) after(delay int, do func()) {
	s.order++
	heap.Push(&s.queue, event{s.now + delay, s.order, do})
}

// total returns how many calls are in flight.
func (s *simulation) total() (n int) {
	for _, shard := range s.shards {
		n += shard.inFlight
	}
	return n
}

// look runs a shard's regular check of its demand, and schedules the next one. The shard admits calls and then asks the
// ledger for more, or returns what it does not need.
func (s *simulation) look(i int) {
	shard := s.shards[i]
	s.after(tick, func() { s.look(i) })
	// Demand comes and goes, so that allotments have to move.
	if (s.now/1000+i)%3 != 0 {
		shard.waiting = min(shard.waiting+s.random.IntN(8), 4*s.Limit)
	} else if s.random.IntN(15) == 0 {
		shard.waiting += s.random.IntN(s.Limit) // a burst into an idle shard
	}

	s.admit(shard)
	if i == 0 {
		s.remember()
	}
	switch {
	case s.now < shard.closed:
	case shard.lost && shard.pending == nil:
		s.nonces++
		s.send(i, message{kind: hello, nonce: s.nonces, n: shard.inFlight})
	case shard.pending != nil:
		if s.now-shard.sent >= patience {
			s.transmit(i)
		}
	case shard.waiting > 0 && shard.inFlight >= shard.allotment:
		s.send(i, message{kind: take, n: min(shard.waiting, 1+s.Limit/s.Shards)})
	case shard.waiting == 0 && shard.allotment > shard.inFlight:
		n := shard.allotment - shard.inFlight
		if s.Without != GiveFirst {
			shard.allotment -= n
		}
		s.send(i, message{kind: give, n: n})
	}
}

// admit starts waiting calls within the shard's allotment.
func (s *simulation) admit(shard *shard) {
	for shard.waiting > 0 && shard.inFlight < shard.allotment && s.now >= shard.closed && !shard.lost {
		if s.total() >= s.Limit {
			s.Violations++
		}
		shard.waiting--
		shard.inFlight++
		s.Calls++
		s.Peak = max(s.Peak, s.total())
		s.after(1+s.random.IntN(longestCall), func() {
			shard.inFlight--
			s.admit(shard)
		})
	}
}

// send makes a message the shard's pending one, which is repeated until it is answered.
func (s *simulation) send(i int, m message) {
	shard := s.shards[i]
	m.shard, m.epoch, m.incarnation = i, shard.epoch, shard.incarnation
	if m.kind == take || m.kind == give {
		shard.sequence++
		m.sequence = shard.sequence
	} else {
		m.sequence = shard.sequence
	}
	shard.pending = &m
	s.transmit(i)
}

func (s *simulation) transmit(i int) {
	m := *s.shards[i].pending
	s.shards[i].sent = s.now
	s.deliver(func() {
		if answer, ok := s.ledger.handle(m); ok {
			s.deliver(func() { s.receive(i, answer) })
		}
	})
}

// deliver schedules the arrival of a message. With faults, it may arrive twice, never, or very late.
func (s *simulation) deliver(arrive func()) {
	times := 1
	if s.Faults {
		switch s.random.IntN(10) {
		case 0:
			times = 0
		case 1:
			times = 2
		}
	}
	for range times {
		delay := 1 + s.random.IntN(longestTrip)
		if s.Faults && s.random.IntN(3) == 0 {
			delay += s.random.IntN(800)
		}
		s.after(delay, arrive)
	}
}

// receive handles an answer that arrives at a shard. It ignores answers to any but the pending message.
func (s *simulation) receive(i int, answer message) {
	shard := s.shards[i]
	p := shard.pending
	if p == nil || answer.kind != p.kind || answer.sequence != p.sequence && answer.kind != hello || answer.nonce != p.nonce {
		return
	}
	if answer.incarnation != p.incarnation && answer.kind != hello && s.Without != Incarnation {
		return
	}

	if answer.stale {
		shard.pending, shard.epoch = nil, answer.epoch
		if !shard.lost { // a message that the ledger forgot is void on both sides
			s.send(i, message{kind: assert, n: shard.allotment})
		}
		return
	}

	if answer.epoch != shard.epoch && s.Without != Epoch {
		return
	}
	shard.pending = nil
	switch answer.kind {
	case take:
		shard.allotment += answer.n
	case give:
		if s.Without == GiveFirst {
			shard.allotment -= answer.n
		}
	case hello:
		shard.allotment, shard.incarnation, shard.sequence, shard.lost = answer.n, answer.incarnation, answer.sequence, false
	}
	s.admit(shard)
}

// remember copies the memories, so that servers can fall back to them. It also counts how much of the limit is used
// while some shard has work, and checks that no more than the limit is lent.
func (s *simulation) remember() {
	s.copies = append(s.copies, slices.Clone(s.ledger.accounts))
	waits, authority := false, 0
	for _, shard := range s.shards {
		shard.oldCopies = append(shard.oldCopies, shard.memory)
		waits = waits || shard.waiting > 0
		if shard.lost {
			authority += shard.inFlight
		} else {
			authority += max(shard.inFlight, shard.allotment)
		}
	}
	if authority > s.Limit {
		s.Overlent++
	}
	if waits {
		s.busy[0] += s.total()
		s.busy[1] += s.Limit
	}
}

// fault makes a shard or the ledger fall back to an older memory, and schedules the next fault.
func (s *simulation) fault() {
	s.after(50+s.random.IntN(500), s.fault)
	s.Losses++
	back := func(n int) int { return max(0, n-1-s.random.IntN(30)) }
	if s.random.IntN(3) == 0 {
		s.ledger.accounts = slices.Clone(s.copies[back(len(s.copies))])
		if s.Without == Epoch {
			return
		}
		s.epochs++
		s.ledger.epoch = s.epochs
		for i := range s.ledger.accounts {
			s.ledger.accounts[i].asserted = false
		}
		return
	}
	shard := s.shards[s.random.IntN(len(s.shards))]
	shard.memory = shard.oldCopies[back(len(shard.oldCopies))]
	shard.pending = nil
	shard.closed = s.now + lease // by then every worker has reported its calls again
	shard.lost = s.Without != AskAfterLoss
}
